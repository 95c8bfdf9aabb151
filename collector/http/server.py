"""The server under the routes: how long it waits, and for how many at once.

A client that sends its request's head byte by byte, or nothing at all, or that
never reads its answer, is cut off; so is one past the connections there is room
for, with a word of why.
Bodies have a deadline of their own (body.py), streams of events theirs.
"""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import cast

from aiohttp import web

from ..address import Address
from ..core import Collector
from .app import build

# From one request's end, or the connection's begin, to the next one's whole head.
HEAD_S = 15.0
# What of a body that nobody reads is waited for, before the connection closes.
LINGER_S = 2.0
# How long an answer may lie unread.
UNREAD_S = 30.0
HANDSHAKE_S = 10.0
BACKLOG = 1024
STOP_S = 3.0  # for requests under way, when the collector stops

_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", -1)  # Linux alone has it

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Content-Type: application/problem+json\r\n"
    b"Connection: close\r\nRetry-After: 5\r\n"
)


class HttpServer:
    """The application on a port."""

    def __init__(self, collector: Collector, most: int) -> None:
        """Serve at most so many connections at once."""
        self._most = most
        self._runner = web.AppRunner(
            build(collector),
            access_log=None,
            keepalive_timeout=HEAD_S,
            lingering_time=LINGER_S,
            shutdown_timeout=STOP_S,
        )
        self._listener: asyncio.Server | None = None

    async def start(self, address: Address, tls: ssl.SSLContext | None) -> None:
        """Listen; OSError if the address can't be had."""
        await self._runner.setup()
        self._listener = await asyncio.get_running_loop().create_server(
            self._accept,
            address.host,
            address.port,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else HANDSHAKE_S,
            backlog=BACKLOG,
        )
        for listening in self._listener.sockets:
            # Connections take it over. tcp(7): counts where the window is
            # closed too, which no timeout of ours sees.
            with suppress(OSError):
                listening.setsockopt(
                    socket.IPPROTO_TCP, _USER_TIMEOUT, round(UNREAD_S * 1000)
                )

    def _accept(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        if server is None or len(server.connections) >= self._most:
            return _TurnedAway(self._most)
        return server()

    async def stop(self) -> None:
        """Take no more, end streams at once, and answer what was asked."""
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()


class _TurnedAway(asyncio.Protocol):
    """Says that there is no room, and closes."""

    def __init__(self, most: int) -> None:
        detail = f"{most} HTTP connections are open: raise max_http_connections"
        body = (
            '{"type": "about:blank", "title": "Service Unavailable", "status": 503, '
            f'"detail": "{detail}"}}\n'
        ).encode()
        length = f"Content-Length: {len(body)}\r\n\r\n".encode()
        self._answer = _FULL + length + body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Answer before anything is asked."""
        writer = cast(asyncio.Transport, transport)
        writer.write(self._answer)
        writer.close()
