"""Latency budgets: a path is judged by the round trips measured on it.

A task may spend a share of its budget on the way. A path fits when the 95th
percentile of its last 60 answers is within that share: distance says nothing,
a mean hides the tail, and what was lost never comes back to be counted. So of
the last 60 probes sent, one without an answer counts with the time that it has
waited, where that is worse than the answers: an outage is seen while it lasts,
and loss of more than a twentieth breaks every budget. Answers count in the order
of arrival, since after a pause they come in a heap and late ones are as true as
others.

A path that nobody measured is neither good nor bad: it is taken when no
measured one fits, and the answer says so.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from math import ceil
from typing import NamedTuple

WINDOW = 60  # the probes of a minute at one a second, as the agent's own links
QUANTILE = 0.95


class Path:
    """The last probes of one path. Times in ms on one monotonic clock."""

    __slots__ = ("_answers_ms", "_sent", "_waiting")

    def __init__(self) -> None:
        self._answers_ms: deque[float] = deque(maxlen=WINDOW)
        self._sent = 0
        self._waiting: OrderedDict[float, int] = OrderedDict()  # by time sent

    def sent(self, at_ms: float) -> None:
        """Note a probe on its way; no two at the very same time."""
        self._sent += 1
        self._waiting[at_ms] = self._sent
        # What was lost so long ago says nothing of the path now.
        while self._sent - next(iter(self._waiting.values())) >= WINDOW:
            self._waiting.popitem(last=False)

    def answered(self, sent_ms: float, at_ms: float) -> None:
        """Note the answer to the probe sent then."""
        self._waiting.pop(sent_ms, None)
        self._answers_ms.append(max(0.0, at_ms - sent_ms))

    def p95_ms(self, now_ms: float) -> float | None:
        """Return the 95th percentile of round trips; None: never answered.

        Waiting probes can only raise it: one just sent has waited for no time,
        and that is no fast answer.
        """
        if not self._answers_ms:
            return None
        answered = quantile(self._answers_ms)
        waits = [now_ms - sent_ms for sent_ms in self._waiting]
        return max(answered, quantile([*self._answers_ms, *waits][-WINDOW:]))


def quantile(values: Sequence[float] | deque[float]) -> float:
    """Return the least value that 95 % of them do not exceed (nearest rank)."""
    return sorted(values)[ceil(QUANTILE * len(values)) - 1]


def within(p95_ms: float | None, budget_ms: float, path_share: float) -> bool | None:
    """Say whether a path leaves the task its time; None: not measured."""
    return None if p95_ms is None else p95_ms <= path_share * budget_ms


class Fitting(NamedTuple):
    """The nodes that a budget leaves."""

    nodes: tuple[str, ...]
    measured: bool  # False: no measured path fits, these are unmeasured
    note: str  # empty when there is nothing to explain


def fitting(
    paths: Mapping[str, float | None], budget_ms: float, path_share: float
) -> Fitting:
    """Return the nodes whose path, by its p95 in ms, fits a budget.

    Unmeasured ones (None) only when no measured one does.
    """
    judged = {node: within(p95, budget_ms, path_share) for node, p95 in paths.items()}
    inside = tuple(node for node, fits in judged.items() if fits)
    if inside:
        return Fitting(inside, True, "")
    unmeasured = tuple(node for node, fits in judged.items() if fits is None)
    limit = f"{path_share * budget_ms:g} ms"
    if not unmeasured:
        return Fitting((), True, f"no path is within {limit}")
    return Fitting(
        unmeasured, False, f"no measured path is within {limit}; these are unmeasured"
    )
