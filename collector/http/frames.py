"""POST /v1/frames: the same messages, for senders that can't hold a stream.

The body is a hello and frames, one after another as on TCP; the answer is
the collector's messages: the welcome, then an ack of what is stored so far.
"""

import math

from aiohttp import web

from trimtab.wire import Ack, Reason, encode

from ..core import COLLECTOR
from ..session import Rejected, Session
from .bearer import brake
from .body import read_body
from .problems import Problem

MEDIA_TYPE = "application/msgpack"
BODY_LIMIT_BYTES = 1024 * 1024
STATUS = {
    Reason.MALFORMED: 400,
    Reason.PROTOCOL: 400,
    Reason.ORDER: 400,
    Reason.CREDENTIAL: 401,
    Reason.LIMIT: 413,
    Reason.STOPPING: 503,
}


async def frames(request: web.Request) -> web.Response:
    """Take the messages; the first that is wrong ends it, those before count."""
    if request.content_type != MEDIA_TYPE:
        raise Problem(
            415, f"expected a body of {MEDIA_TYPE}, got {request.content_type!r}"
        )
    body = await read_body(request)
    collector = request.app[COLLECTOR]
    intake = collector.intake
    session = Session(intake)
    try:
        answers = session.feed(body)
    except Rejected as rejected:
        reason = rejected.refused.reason
        headers = {}
        if reason is Reason.CREDENTIAL:
            brake(request)
            headers["WWW-Authenticate"] = "Bearer"
        if rejected.refused.retry_s is not None:
            headers["Retry-After"] = str(math.ceil(rejected.refused.retry_s))
        raise Problem(
            STATUS[reason],
            rejected.refused.text,
            f"refused-{reason.name.lower()}",
            headers=headers,
        ) from rejected
    if session.row is None or session.partial_bytes:
        raise Problem(
            400,
            f"the body ends within a message: {session.partial_bytes} bytes are left"
            if session.partial_bytes
            else "the body is empty: expected a hello, then frames",
            "refused-malformed",
        )
    stored = intake.stored_seq.get(session.row)
    if stored is not None:
        answers.append(Ack(stored))
    return web.Response(
        body=b"".join(encode(message) for message in answers),
        content_type=MEDIA_TYPE,
    )
