"""GPM: how busy the parts of a Hopper or newer GPU were between two samples.

Source: nvmlGpmSampleGet, nvmlGpmMetricsGet. Samples must be more than 100 ms
apart. The metrics' struct has another length in each major version of nvml.h
under the same version number, so nothing past the metrics asked for is touched.
"""

import math
from collections.abc import Callable

import pynvml

from .readings import Gpm

APART_S = 0.1
METRICS = (
    pynvml.NVML_GPM_METRIC_SM_UTIL,
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
)
# Ratios of cycles; clock swings push them somewhat past 100.
MOST_PERCENT = 120.0


class GpmPair:
    """Two samples of one device or MIG instance, taken in turn."""

    def __init__(self, take: Callable[[object], object]) -> None:
        """`take` fills a sample: nvmlGpmSampleGet or its MIG sister."""
        self._take = take
        self._older = pynvml.nvmlGpmSampleAlloc()
        self._newer = pynvml.nvmlGpmSampleAlloc()
        self._taken_s: float | None = None
        self._latest = Gpm()

    def read(self, now_s: float) -> Gpm:
        """Return the metrics since the sample before; NVMLError as it comes.

        The first has none, and one too early is the one before.
        """
        if self._taken_s is not None and now_s - self._taken_s <= APART_S:
            return self._latest
        first = self._taken_s is None
        self._taken_s = None  # should taking fail, begin anew
        self._take(self._newer)
        self._taken_s = now_s
        self._older, self._newer = self._newer, self._older
        if first:
            return Gpm()
        # After the swap, `_newer` is the one to be filled next: the older one.
        self._latest = Gpm(*self._metrics(self._newer, self._older))
        return self._latest

    def _metrics(self, before: object, after: object) -> list[float | None]:
        asked = pynvml.c_nvmlGpmMetricsGet_t()
        asked.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(METRICS)
        asked.sample1 = before
        asked.sample2 = after
        for place, metric in enumerate(METRICS):
            asked.metrics[place].metricId = metric
        pynvml.nvmlGpmMetricsGet(asked)
        return [_percent(asked.metrics[place]) for place in range(len(METRICS))]

    def free(self) -> None:
        """Give the samples back."""
        pynvml.nvmlGpmSampleFree(self._older)
        pynvml.nvmlGpmSampleFree(self._newer)


def _percent(metric: "pynvml.c_nvmlGpmMetric_t") -> float | None:
    value = float(metric.value)
    good = metric.nvmlReturn == pynvml.NVML_SUCCESS and math.isfinite(value)
    return value if good and 0 <= value <= MOST_PERCENT else None
