"""A target's addresses, looked up without holding up anything.

The C library's resolver blocks, for half a minute where name servers are
away. It runs in a daemon thread, at most one a target, so that neither the
event loop nor the end of the program waits for it.
"""

import asyncio
import socket
import threading
from contextlib import suppress

from .targets import Address, Target, addresses


class Resolver:
    """The lookups of one target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._pending: asyncio.Future[list[Address] | Exception] | None = None

    async def addresses(self, deadline_s: float) -> list[Address]:
        """Return the addresses as of now.

        TimeoutError past the deadline: the lookup goes on, and the next call
        waits for the same one. Errors as of the function above.
        """
        with suppress(OSError, UnicodeError):
            return addresses(self.target, socket.AI_NUMERICHOST)
        if self._pending is None:
            self._pending = self._started()
        done, _ = await asyncio.wait({self._pending}, timeout=deadline_s)
        if not done:
            raise TimeoutError(f"no answer from the resolver within {deadline_s:g} s")
        found = self._pending.result()
        self._pending = None
        if isinstance(found, Exception):
            raise found
        return found

    def _started(self) -> asyncio.Future[list[Address] | Exception]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Address] | Exception] = loop.create_future()

        def look_up() -> None:
            found: list[Address] | Exception
            try:
                found = addresses(self.target)
            except (OSError, UnicodeError) as exc:
                found = exc
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(future.set_result, found)

        name = f"resolve {self.target.host}"
        threading.Thread(target=look_up, name=name, daemon=True).start()
        return future
