"""An event in a line: `trimtab events`."""

from trimtab.client import Event

from . import units
from .harmless import harmless

_KIND_WIDTH = 10


def line(event: Event) -> str:
    """Return it as plain text that is safe to show."""
    before, after = event.details.get("before"), event.details.get("after")
    change = f"{before} -> {after}: " if before is not None and after else ""
    by = f" (by {event.by})" if event.by else ""
    subject = f"{event.node}: " if event.node else ""
    said = harmless(f"{subject}{change}{event.reason}{by}")
    kind = harmless(event.kind).ljust(_KIND_WIDTH)
    return f"{units.moment(event.time)}  {event.id:>6}  {kind}  {said}"
