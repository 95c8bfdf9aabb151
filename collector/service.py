"""`trimtab-collector run`: sockets, timers, signals around the core."""

import asyncio
import signal
import sqlite3
import ssl
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from .core import Collector
from .http.app import build
from .ingest import Ingest
from .notify import notify
from .settings import Settings

log = structlog.get_logger()

BACKLOG = 1024
HANDSHAKE_S = 10.0
WATCHDOG_S = 10.0
FORGET_S = 5.0
CREDENTIALS_S = 5.0  # until a new or revoked token counts
STOP_S = 3.0


class CannotServe(RuntimeError):
    """A listener or a certificate that can't be had; the text says why."""


async def serve(collector: Collector) -> None:
    """Run until SIGTERM, SIGINT or SIGHUP; CannotServe if it can't start."""
    settings = collector.settings
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    ingest = Ingest(collector.intake, settings.max_connections)
    tls = tls_context(settings)
    runner = web.AppRunner(build(collector), access_log=None, shutdown_timeout=STOP_S)
    await runner.setup()
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
        await web.TCPSite(
            runner, address.host, address.port, ssl_context=tls, backlog=BACKLOG
        ).start()
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
        except sqlite3.Error as exc:
            # Those known stay valid; the committer says what the matter is.
            log.debug("credentials_unread", error=str(exc))
        else:
            collector.credentials.replace(known)

    async def forget() -> None:
        for row in collector.expired():
            log.info("node_forgotten", node=collector.fleet.nodes[row].name)
            ingest.forget(row)

    async def watchdog() -> None:
        notify("WATCHDOG=1")

    async with asyncio.TaskGroup() as tasks:
        timers = [
            tasks.create_task(_each(settings.tick_s, tick)),
            tasks.create_task(_each(settings.commit_s, commit)),
            tasks.create_task(_each(CREDENTIALS_S, credentials)),
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
    await runner.cleanup()
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


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS of both ports, None without; CannotServe says what is wrong."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    for key, path in (("tls_cert", settings.tls_cert), ("tls_key", settings.tls_key)):
        try:
            path.open("rb").close()
        except OSError as exc:
            raise CannotServe(f"{key} = {path}: {exc.strerror}") from exc
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except ssl.SSLError as exc:
        raise CannotServe(
            f"tls_cert {settings.tls_cert} and tls_key {settings.tls_key} don't go "
            f"together, or are no PEM files: {exc.reason or exc}"
        ) from exc
    return context
