"""`trimtab-collector run`: sockets, timers, signals around the core."""

import asyncio
import signal
import sqlite3
import time
from collections.abc import Awaitable, Callable

import structlog

from .core import Collector
from .descriptors import raise_limit, share_out
from .events import Kind
from .http.server import HttpServer
from .ingest import Ingest
from .notify import notify
from .tls import BadTls, Certificates, tls_context

log = structlog.get_logger()

BACKLOG = 1024
HANDSHAKE_S = 10.0
WATCHDOG_S = 10.0
FORGET_S = 5.0
CERTIFICATES_S = 10.0  # until a new one is taken up
CREDENTIALS_S = 5.0  # until a new or revoked token counts


class CannotServe(RuntimeError):
    """A listener that can't be had; the text says why."""


async def serve(collector: Collector) -> None:
    """Run until SIGTERM or SIGINT; CannotServe or BadTls if it can't start.

    SIGHUP reads certificates and credentials again.
    """
    settings = collector.settings
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    shares = share_out(
        raise_limit(), settings.max_connections, settings.max_http_connections
    )
    if shares != (settings.max_connections, settings.max_http_connections):
        log.warning(
            "few_descriptors",
            agents=shares.frames,
            http=shares.http,
            mend="raise LimitNOFILE= of the unit, or ulimit -n",
        )
    ingest = Ingest(collector.intake, shares.frames)
    tls = tls_context(settings)
    certificates = None if tls is None else Certificates(settings, tls)
    http = HttpServer(collector, shares.http)
    try:
        address = settings.frames_listen
        frames = await loop.create_server(
            ingest.connection,
            address.host,
            address.port,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else HANDSHAKE_S,
            backlog=BACKLOG,
        )
        address = settings.http_listen
        await http.start(address, tls)
    except OSError as exc:
        raise CannotServe(
            f"can't listen on {address}: {exc.strerror}. Is another collector "
            "running? Set frames_listen and http_listen to free addresses"
        ) from exc

    async def commit() -> None:
        ingest.acknowledge(await collector.commit())

    async def tick() -> None:
        collector.tick()
        ingest.sweep(collector.clock.monotonic())

    async def credentials() -> None:
        try:
            known = await asyncio.to_thread(collector.store.credentials)
            notices = await asyncio.to_thread(collector.store.notices)
        except sqlite3.Error as exc:
            # Those known stay valid; the committer says what the matter is.
            log.debug("credentials_unread", error=str(exc))
        else:
            collector.credentials.replace(known)
            collector.take_notices(notices)

    async def renew_certificates() -> None:
        if certificates is None or not certificates.changed():
            return
        try:
            await asyncio.to_thread(certificates.reload)
        except BadTls as exc:
            text = f"the new certificate can't be used, the old one stays: {exc}"
            collector.events.say(Kind.COLLECTOR, text)
        else:
            collector.events.say(Kind.COLLECTOR, "the new certificate is in use")

    async def reload() -> None:
        notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
        await credentials()
        await renew_certificates()
        log.info("collector_reloaded")
        notify("READY=1")

    reloading: set[asyncio.Task[None]] = set()

    def hang_up() -> None:
        task = loop.create_task(reload())
        reloading.add(task)
        task.add_done_callback(reloading.discard)

    loop.add_signal_handler(signal.SIGHUP, hang_up)

    async def forget() -> None:
        for row in collector.expired():
            collector.tell_forgotten(row)
            ingest.forget(row)

    async def watchdog() -> None:
        notify("WATCHDOG=1")

    async with asyncio.TaskGroup() as tasks:
        timers = [
            tasks.create_task(_each(settings.tick_s, tick)),
            tasks.create_task(_each(settings.commit_s, commit)),
            tasks.create_task(_each(CREDENTIALS_S, credentials)),
            tasks.create_task(_each(CERTIFICATES_S, renew_certificates)),
            tasks.create_task(_each(FORGET_S, forget)),
            tasks.create_task(_each(WATCHDOG_S, watchdog)),
        ]
        notify("READY=1")
        log.info(
            "collector_started",
            frames=str(settings.frames_listen),
            http=str(settings.http_listen),
            nodes=len(collector.fleet),
            tls=tls is not None,
            open=collector.credentials.open,
        )
        await stopping.wait()
        notify("STOPPING=1")
        log.info("collector_stopping")
        frames.close()
        for timer in timers:
            timer.cancel()
    await commit()
    ingest.stop()
    await http.stop()
    collector.committer.close()
    log.info("collector_stopped")


async def _each(interval_s: float, job: Callable[[], Awaitable[None]]) -> None:
    """Run the job at a fixed cadence; a late turn is not made up for."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        await job()
        due = max(due + interval_s, loop.time())
        await asyncio.sleep(due - loop.time())
