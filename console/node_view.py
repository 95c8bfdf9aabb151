"""All that is known of one node: `trimtab node N`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trimtab.client import Hole, Link, Node

from . import units
from .bars import GAP, bar, sparkline
from .harmless import harmless
from .intent_view import drain
from .nodes_view import age
from .states import state
from .terminal import table

_BAR_CELLS = 20
_DOCTOR = "'trimtab-agent doctor' there says why, and how to mend it"


def whole(
    node: Node, hour: Sequence[float | None], *, roomy: bool
) -> Iterator[RenderableType]:
    """Yield what to print; `hour` is the score of the last hour, step by step."""
    yield _headline(node)
    yield Text(_confidence(node))
    yield from _section("headroom (1 idle, 0 at the knee)", _headroom(node))
    yield from _section(f"score, last hour ({GAP} no reading)", _hour(hour))
    yield from _section("signals", _signals(node))
    gpus = node.raw.get("gpus")
    if isinstance(gpus, dict):
        yield from _section("GPUs", _gpus(gpus))
    # Of a silent node the collector still knows these two, and no reading.
    then = ", as last reported" if node.confidence is None else ""
    yield from _section(f"links{then}", _links(node.links, roomy=roomy))
    if node.holes:
        yield from _section(f"holes{then}", _holes(node.holes))
    yield from _section("about", _about(node))


def _section(title: str, body: RenderableType) -> Iterator[RenderableType]:
    yield Text(f"\n{title}", style="bold")
    yield Padding(body, (0, 0, 0, 2), expand=False)


def _headline(node: Node) -> Text:
    limited = f", limited by {node.limiting}" if node.limiting else ""
    return Text.assemble(
        (harmless(node.name), "bold"),
        "  ",
        state(node),
        f" for {units.duration(node.state_for_s)}, "
        f"score {units.number(node.score)}{harmless(limited)}",
    )


def _confidence(node: Node) -> str:
    if node.confidence is not None:
        return (
            f"confidence {units.share(node.confidence)} of its signals read, "
            f"{age(node)} ago"
        )
    if node.age_ms is None:
        seen = units.moment(node.last_seen)
        return f"no reading since the collector started; last heard of {seen}"
    return f"no reading; the last one is {age(node)} old"


def _headroom(node: Node) -> Table:
    rows = Table.grid(padding=(0, 2))
    for dimension, value in node.headroom.items():
        picture = bar(value, _BAR_CELLS) or "no reading"
        rows.add_row(Text(harmless(dimension)), units.number(value), picture)
    return rows


def _hour(hour: Sequence[float | None]) -> Text:
    known = [value for value in hour if value is not None]
    if not known:
        return Text("no reading in this hour")
    least, most = units.number(min(known)), units.number(max(known))
    return Text(f"{sparkline(hour)}  {least} to {most}")


def _gpus(section: Mapping[str, Any]) -> RenderableType:
    """Show each device in a line; what an older collector lacks is left out."""
    head = f"{section.get('state')}"
    if (stranding := _number(section, "stranding")) is not None:
        head += f", {units.share(stranding)} of the free memory stranded"
    lines = [Text(harmless(head))]
    devices = section.get("devices")
    for gpu in devices if isinstance(devices, list) else ():
        if not isinstance(gpu, dict):
            continue
        parts = [
            f"{gpu.get('device')} {gpu.get('name') or 'unnamed'}",
            f"health {gpu.get('health') or units.NO_READING}",
            f"{units.mebibytes(_number(gpu, 'free_mib'))} free",
            f"busy {units.share(_number(gpu, 'busy'))}",
            f"useful at most {units.share(_number(gpu, 'effective'))}",
        ]
        if gpu.get("pseudo_high"):
            parts.append("busy but doing little")
        parts += map(str, gpu.get("reasons") or ())
        lines.append(Text(harmless(", ".join(parts))))
    return Group(*lines)


def _number(values: Mapping[str, Any], key: str) -> float | None:
    """Return a number; None for none, and for what is no number."""
    value = values.get(key)
    return float(value) if isinstance(value, int | float) else None


def _signals(node: Node) -> RenderableType:
    if all(value is None for value in node.signals.values()):
        return Text("no reading")
    rows = Table.grid(padding=(0, 2))
    for name, value in node.signals.items():
        rows.add_row(Text(harmless(name)), units.reading(name, value))
    return rows


def _links(links: Sequence[Link], *, roomy: bool) -> RenderableType:
    if not links:
        return Text("none reported")
    if not roomy:
        return Text("\n").join(_link_line(link) for link in links)
    numbers = ("rtt", "least", "p95", "jitter", "loss", "retransmits")
    rows = table("to", "by", *numbers, numbers=numbers)
    for link in links:
        rows.add_row(
            Text(harmless(link.to)),
            Text(harmless(link.method or units.NO_READING)),
            units.microseconds(link.rtt_us),
            units.microseconds(link.rtt_min_us),
            units.microseconds(link.rtt_p95_us),
            units.microseconds(link.jitter_us),
            units.share(link.loss),
            units.count(link.retransmits),
        )
    return rows


def _link_line(link: Link) -> Text:
    return Text(
        f"{harmless(link.to)} by {harmless(link.method or units.NO_READING)}: "
        f"rtt {units.microseconds(link.rtt_us)}, "
        f"p95 {units.microseconds(link.rtt_p95_us)}, "
        f"jitter {units.microseconds(link.jitter_us)}, "
        f"loss {units.share(link.loss)}, "
        f"retransmits {units.count(link.retransmits)}"
    )


def _holes(holes: Sequence[Hole]) -> Text:
    return Text("\n").join(Text(_hole(hole)) for hole in holes)


def _hole(hole: Hole) -> str:
    where = f" to {hole.to}" if hole.to else ""
    subject = harmless(f"{hole.signal}{where}: {hole.state}")
    age_s = None if hole.age_ms is None else hole.age_ms / 1000
    match hole.state:
        case "unsupported":
            return f"{subject}: this host has no such reading; {_DOCTOR}"
        case "error":
            return f"{subject}: its source failed, or gave nonsense; {_DOCTOR}"
        case "stale":
            return f"{subject}: the value is {units.duration(age_s)} old"
        case _:
            return subject


def _about(node: Node) -> Table:
    rows = Table.grid(padding=(0, 2))
    reports = (
        f"every {units.duration(node.interval_ms / 1000)}, stale after "
        f"{units.duration(node.stale_after_ms / 1000)} of silence"
    )
    facts: dict[str, str | None] = {
        "id": node.id,
        "taken out": drain(node),
        "agent": node.agent_version,
        "reports": reports,
        "samples lost": units.count(node.gaps),
        "CPUs": units.count(node.cpus),
        "memory": units.mebibytes(node.memory_mib),
        "slots": "as many as CPUs" if node.slots is None else units.count(node.slots),
        "speed": units.count(1.0 if node.speed is None else node.speed),
        "address": node.address,
        "site": node.site,
        "zone": node.zone,
        "operator": node.operator,
        "price": None if node.price is None else units.count(node.price),
        "labels": _pairs(node.labels.items()),
        "groups": ", ".join(node.groups),
        "holds": ", ".join(node.holds),
        "resources": _pairs(node.resources.items()),
    }
    for name, value in facts.items():
        if value:
            rows.add_row(name, Text(harmless(value), overflow="fold"))
    return rows


def _pairs(items: Iterable[tuple[str, object]]) -> str:
    return ", ".join(f"{key}={value}" for key, value in items)
