"""GET /metrics: Prometheus text. Series a node: one a number, no more."""

from collections.abc import Iterator

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector as Source

from trimtab.wire import VERSION, Reason

from ..core import COLLECTOR, Collector
from ..health import DIMENSIONS
from ..states import Admin, State
from .nodes import number


async def metrics(request: web.Request) -> web.Response:
    """Answer what is true now."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Now(request.app[COLLECTOR]))
    return web.Response(
        body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
    )


# What they last said is no reading any more.
_UNHEARD = (State.LOST, State.SLEEPING)


class _Now(Source):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "trimtab_build", "This collector.", value={"version": VERSION}
        )
        yield from self._fleet()
        yield from self._nodes()
        yield from self._intake()
        yield from self._router()

    def _fleet(self) -> Iterator[Metric]:
        fleet = self._collector.fleet
        states = GaugeMetricFamily("trimtab_nodes", "Nodes by state.", labels=["state"])
        held = fleet.state[fleet.rows()]
        for state in State:
            count = int((held == state).sum())
            states.add_metric([state.name.lower()], count)
        yield states

    def _nodes(self) -> Iterator[Metric]:
        fleet = self._collector.fleet
        now = self._collector.clock.monotonic()
        score = GaugeMetricFamily(
            "trimtab_node_score", "Headroom 0-1, the least read.", labels=["node"]
        )
        headroom = GaugeMetricFamily(
            "trimtab_node_headroom",
            "Headroom 0-1 of one dimension.",
            labels=["node", "dimension"],
        )
        age = GaugeMetricFamily(
            "trimtab_node_age_seconds", "Age of the newest reading.", labels=["node"]
        )
        gaps = CounterMetricFamily(
            "trimtab_node_gaps",
            "Samples that the agent had to drop, in this run of it.",
            labels=["node"],
        )
        for row in fleet.rows():
            node = fleet.nodes[row]
            if fleet.admin[row] == Admin.TOMBSTONED:
                continue
            if fleet.state[row] in _UNHEARD:
                continue
            # A series that is missing is "no reading"; 0 would be a lie.
            if (value := number(fleet.score[row])) is not None:
                score.add_metric([node.name], value)
            for index, dimension in enumerate(DIMENSIONS):
                if (value := number(fleet.headroom[row, index])) is not None:
                    headroom.add_metric([node.name, dimension], value)
            if (sampled_at := number(fleet.sampled_at[row])) is not None:
                age.add_metric([node.name], round(now - sampled_at, 3))
            gaps.add_metric([node.name], node.gaps)
        yield from (score, headroom, age, gaps)

    def _intake(self) -> Iterator[Metric]:
        counts = self._collector.intake.counts
        yield CounterMetricFamily(
            "trimtab_frames", "Frames that arrived.", value=counts.frames
        )
        yield CounterMetricFamily(
            "trimtab_frames_repeated",
            "Frames that had been counted before.",
            value=counts.repeated,
        )
        yield CounterMetricFamily(
            "trimtab_connections", "Connections of agents.", value=counts.connections
        )
        refused = CounterMetricFamily(
            "trimtab_refused", "Conversations refused.", labels=["reason"]
        )
        for reason in Reason:
            refused.add_metric([reason.name.lower()], counts.refused[reason])
        yield refused
        yield CounterMetricFamily(
            "trimtab_samples_lost",
            "Samples lost to history while commits failed for long.",
            value=self._collector.fleet.rollups.lost_samples,
        )
        yield GaugeMetricFamily(
            "trimtab_store_failing",
            "1 while commits fail: history waits in memory.",
            value=float(self._collector.committer.failure is not None),
        )

    def _router(self) -> Iterator[Metric]:
        counts = self._collector.decisions
        decided = CounterMetricFamily(
            "trimtab_decisions", "Routing decisions by mode.", labels=["mode"]
        )
        for mode, count in counts.items():
            decided.add_metric([mode], count)
        yield decided
