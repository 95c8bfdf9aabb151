"""Follow the events: a stream that is taken up again where it broke off.

The number of the last event goes with each new request, so that nothing is
missed unless the collector says so itself, by an event of kind gap.
"""

import json
import time
from collections.abc import Iterable, Iterator
from http import HTTPStatus

from .errors import ApiError, NoCollector, WrongServer
from .events import Event, parse_event
from .exchange import Exchange, parsed
from .sse import NotEvents, messages

# The collector sends at least a comment every 15 s.
SILENCE_S = 40.0
AGAIN_S = 2.0
_PATH = "/v1/events"


def follow(exchange: Exchange, after: int, patience_s: float) -> Iterator[Event]:
    """Yield events past a number as they happen, without end.

    A collector that is away is asked again for `patience_s`, then it is the
    ApiError that it was; what asking again can't mend is one at once.
    """
    well = _Well()
    while True:
        try:
            for event in _once(exchange, after, well):
                after = event.id
                yield event
        except ApiError as exc:
            passing = isinstance(exc, NoCollector) or (
                exc.status == HTTPStatus.SERVICE_UNAVAILABLE
            )
            if not passing or time.monotonic() - well.at > patience_s:
                raise
        time.sleep(AGAIN_S)


class _Well:
    """When something came last, if only a sign of life."""

    def __init__(self) -> None:
        self.at = time.monotonic()

    def seen(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.at = time.monotonic()
            yield piece


def _once(exchange: Exchange, after: int, well: _Well) -> Iterator[Event]:
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
    line = f"GET {exchange.url}{_PATH}"
    pieces = exchange.stream(_PATH, headers, SILENCE_S)
    try:
        for message in messages(well.seen(pieces)):
            yield parsed(line, json.loads(message.data), parse_event)
    except (NotEvents, ValueError, RecursionError) as exc:
        raise WrongServer(f"{line}: expected events of JSON: {exc}") from exc
