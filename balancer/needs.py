"""The hard needs of a task: what a node must have, or it is left out.

Each need is a rule with a name, the limit that the task sets, and the value
of each node, so that an answer can say what was compared. A value that was not
read neither passes nor fails: such a node is taken only when no node passes.

The latency budget is compared with the path that is measured, which is the
agent's own link to the collector (p95 of its round trips), not the path from
where the request comes.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .snapshot import Snapshot
from .task import Task

Plain = str | int | float | None


class Rule(NamedTuple):
    """One need. `value` gives a row's; None: not read."""

    name: str  # the task's field
    column: str  # of the snapshot, beside ids and names
    limit: Plain
    value: Callable[[int], Plain]
    passes: Callable[[Plain], bool]
    fault: str  # what a node that fails is said to do: "have less than ..."


def key(task: Task) -> tuple[object, ...]:
    """Return what decides which nodes fit a task: equal keys fit alike."""
    return (
        task.asks_gpu,
        task.latency_budget_ms,
        task.cpu,
        task.memory_mib,
        task.gpus,
        task.gpu_memory_mib,
        task.labels,
        task.avoid,
        task.failover_from,
    )


def rules(snapshot: Snapshot, task: Task, path_share: float) -> list[Rule]:
    """Return a rule for each need that the task states; 0 states none."""
    found: list[Rule] = []
    if task.cpu:
        fault = f"have fewer than {task.cpu:g} CPUs"
        found.append(_at_least("cpu", "cpus", task.cpu, snapshot, fault))
    if task.memory_mib:
        fault = f"have less than {task.memory_mib:.16g} MiB of memory free"
        found.append(
            _at_least("memory_mib", "memory_free_mib", task.memory_mib, snapshot, fault)
        )
    if task.asks_gpu:
        # Memory on a GPU needs one; without it, free memory is no open question.
        devices = max(1, task.gpus or 0)
        fault = f"have fewer than {devices} GPU{'s' if devices > 1 else ''}"
        found.append(_at_least("gpus", "gpus", devices, snapshot, fault))
    if task.gpu_memory_mib:
        need = task.gpu_memory_mib
        fault = f"have less than {need:.16g} MiB free on any one GPU"
        found.append(_at_least("gpu_memory_mib", "gpu_free_mib", need, snapshot, fault))
    if task.latency_budget_ms:
        limit = path_share * task.latency_budget_ms
        fault = (
            f"have a path over {limit:g} ms, "
            f"{path_share:g} of the budget of {task.latency_budget_ms:g} ms"
        )
        found.append(
            Rule(
                "latency_budget_ms",
                "rtt_p95_ms",
                limit,
                snapshot.rtt_p95_ms.__getitem__,
                lambda rtt: isinstance(rtt, int | float) and rtt <= limit,
                fault,
            )
        )
    found += [_labelled(snapshot, name, label) for name, label in task.labels]
    if task.avoid:
        found.append(_avoided(snapshot, frozenset(task.avoid)))
    if task.failover_from is not None:
        found.append(_failed(snapshot, task.failover_from))
    return found


def shared_groups(snapshot: Snapshot, task: Task) -> Callable[[int], int]:
    """Return how many risk groups a row shares with the node failed over from."""
    failed = None
    if task.failover_from is not None:
        failed = snapshot.row(task.failover_from)
    if failed is None:
        return lambda _: 0
    groups = frozenset(snapshot.groups[failed])
    return lambda row: len(groups.intersection(snapshot.groups[row]))


def idle_words(snapshot: Snapshot, task: Task) -> tuple[str, ...]:
    """Return the names that a task gives and that no node or group has."""
    found: list[str] = []
    if task.failover_from is not None and snapshot.row(task.failover_from) is None:
        found.append(f"failover_from: no node {task.failover_from!r}")
    if task.avoid:
        found += [
            f"avoid: no node or group {word!r}"
            for word in task.avoid
            if word not in snapshot.group_names and snapshot.row(word) is None
        ]
    return tuple(found)


def _at_least(
    name: str, column: str, need: float, snapshot: Snapshot, fault: str
) -> Rule:
    values: Sequence[Plain] = getattr(snapshot, column)

    def passes(value: Plain) -> bool:
        return isinstance(value, int | float) and value >= need

    return Rule(name, column, need, values.__getitem__, passes, fault)


def _labelled(snapshot: Snapshot, name: str, label: str) -> Rule:
    # A label that is absent is known to be absent.
    return Rule(
        f"labels.{name}",
        "labels",
        label,
        lambda row: snapshot.labels[row].get(name, ""),
        lambda value: value == label,
        f"are not labelled {name}={label}",
    )


def _avoided(snapshot: Snapshot, words: frozenset[str]) -> Rule:
    def matched(row: int) -> str:
        own = (snapshot.ids[row], snapshot.names[row], *snapshot.groups[row])
        return next((word for word in own if word in words), "")

    return Rule(
        "avoid",
        "groups",
        ", ".join(sorted(words)),
        matched,
        lambda word: word == "",
        "are to be avoided",
    )


def _failed(snapshot: Snapshot, failed: str) -> Rule:
    there = snapshot.row(failed)
    return Rule(
        "failover_from",
        "groups",
        failed,
        lambda row: failed if row == there else "",
        lambda value: value == "",
        "are the node failed over from",
    )
