"""A decision with all it was made of: `trimtab route` and `trimtab explain`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trimtab.client import Candidate, Decision, Example, Filtered, NoFit

from . import units
from .harmless import harmless
from .terminal import table
from .why import busy, sentence


def picked(decision: Decision, *, roomy: bool) -> Iterator[RenderableType]:
    """Yield what to print of a pick."""
    where = f" at {decision.address}" if decision.address else ""
    yield Text.assemble(
        "-> ", (harmless(decision.node), "bold"), harmless(where), style=""
    )
    yield Text(sentence(decision))
    yield Text(
        f"score {units.number(decision.score)}; decision {harmless(decision.id)}, "
        f"a lease of {units.duration(decision.expires_ms / 1000)} "
        "or until its outcome"
    )
    yield Text(f"task {_task(decision.why.task)}")
    yield Text("\ncandidates, best first", style="bold")
    yield _indented(_candidates(decision.why.candidates, roomy=roomy))
    if decision.alternatives:
        others = ", ".join(
            f"{a.node} at {a.address}" if a.address else a.node
            for a in decision.alternatives
        )
        yield Text(f"\nif it fails: {harmless(others)}")
    yield from _left_out(decision.why.filtered)
    for what in decision.why.relaxed:
        yield Text(f"\ngave way: {harmless(what)}")
    yield from _unused(decision.why.unused)


def nowhere(no_fit: NoFit) -> Iterator[RenderableType]:
    """Yield what to print where no node fits."""
    yield Text(harmless(no_fit.detail))
    yield from _left_out(no_fit.filtered)
    yield from _unused(no_fit.unused)


def _task(task: Mapping[str, Any]) -> str:
    words = []
    for key, value in task.items():
        if isinstance(value, dict):
            words += [f"{key}.{name}={each}" for name, each in value.items()]
        elif isinstance(value, list):
            words.append(f"{key}={','.join(str(each) for each in value)}")
        elif isinstance(value, float):
            words.append(f"{key}={value:.10g}")
        else:
            words.append(f"{key}={value}")
    return harmless(" ".join(words))


def _candidates(candidates: Sequence[Candidate], *, roomy: bool) -> Table:
    columns = ["node", "expected", "rtt", "taken", "headroom"]
    if roomy:
        columns += ["limiting", "state", "slowness", "age"]
    rows = table(*columns, numbers=("expected", "rtt", "headroom", "slowness", "age"))
    for each in candidates:
        cells: list[str | Text] = [
            Text(harmless(each.node)),
            units.milliseconds(each.cost_ms),
            units.milliseconds(each.rtt_ms),
            busy(each),
            units.number(each.headroom),
        ]
        if roomy:
            cells += [
                Text(harmless(each.limiting or units.NO_READING)),
                Text(harmless(each.state)),
                units.number(each.slowness * each.stall),
                units.duration(None if each.age_ms is None else each.age_ms / 1000),
            ]
        rows.add_row(*cells)
    return rows


def _left_out(filtered: Sequence[Filtered]) -> Iterator[RenderableType]:
    if not filtered:
        return
    yield Text("\nleft out (a node may miss several needs)", style="bold")
    for entry in filtered:
        examples = ", ".join(_example(each) for each in entry.examples)
        many = entry.nodes > len(entry.examples)
        which = f"{entry.nodes} nodes, such as {examples}" if many else examples
        yield _indented(Text(harmless(f"{entry.fault}: {which}")))


def _example(example: Example) -> str:
    value = example.value
    if value is None or value == "":
        return example.node
    shown = value if isinstance(value, str) else units.count(value)
    return f"{example.node} ({shown})"


def _unused(unused: Sequence[str]) -> Iterator[RenderableType]:
    if unused:
        yield Text(f"\nnothing acted on: {harmless(', '.join(unused))}")


def _indented(body: RenderableType) -> Padding:
    return Padding(body, (0, 0, 0, 2), expand=False)
