"""`trimtab-agent run`: identity, credentials and signals around the agent."""

import asyncio
import os
import signal
import ssl
from pathlib import Path

from .agent import Agent
from .emit import Log
from .host import Host
from .identity import NoIdentity, load_or_make, read_token
from .notify import Manager
from .settings import Settings


class CannotRun(RuntimeError):
    """The agent can't start; the text says why and what to do."""


def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; CannotRun if it can't start."""
    log = Log(settings.log_format, settings.log_level)
    try:
        identity = load_or_make(settings.state_dir)
        token = _token(settings)
    except NoIdentity as exc:
        raise CannotRun(str(exc)) from exc
    tls = _tls(settings)
    host = Host(settings.procfs, settings.sysfs)

    async def run() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        agent = Agent(settings, identity, token, host, log, Manager(), tls)
        await agent.run(stopping)

    try:
        asyncio.run(run())
    finally:
        host.close()


def _token(settings: Settings) -> str | None:
    """Return the token of the settings, or of systemd's LoadCredential=."""
    if settings.token_file is not None:
        return read_token(settings.token_file)
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    path = Path(folder) / "token" if folder else None
    if path is None or not path.exists():
        return None
    return read_token(path, guarded=True)


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if not settings.tls:
        return None
    try:
        return ssl.create_default_context(cafile=settings.tls_ca)
    except (OSError, ssl.SSLError) as exc:
        raise CannotRun(f"tls_ca {settings.tls_ca}: {exc}") from exc
