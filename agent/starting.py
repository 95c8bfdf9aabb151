"""What both shells need before they start: identity, token, TLS, log, host."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .emit import Log
from .host import Host
from .identity import Identity, NoIdentity, known, load_or_make, read_token
from .paths import exists
from .settings import Settings

if TYPE_CHECKING:
    import ssl


class CannotRun(RuntimeError):
    """The agent can't start; the text says why and what to do."""


class Start(NamedTuple):
    """All that a shell runs on."""

    settings: Settings
    identity: Identity
    token: str | None
    host: Host
    log: Log
    tls: "ssl.SSLContext | None"
    again: Callable[[], Settings] | None = None  # reads the settings anew


def prepare(settings: Settings, again: Callable[[], Settings] | None = None) -> Start:
    """Return what the shell runs on; CannotRun if something is missing.

    `again` is how a reload reads the settings; None: it can't.
    """
    log = Log(settings.log_format, settings.log_level)
    try:
        enrolled = known(settings.state_dir)
        identity = load_or_make(settings.state_dir)
        token = _token(settings, log, enrolled=enrolled)
    except NoIdentity as exc:
        raise CannotRun(str(exc)) from exc
    return Start(
        settings=settings,
        identity=identity,
        token=token,
        host=Host(settings.procfs, settings.sysfs, settings.cgroup),
        log=log,
        tls=tls_context(settings),
        again=again,
    )


def _token(settings: Settings, log: Log, *, enrolled: bool) -> str | None:
    """Return the token of the settings, or of systemd's LoadCredential=.

    A node that enrolled before needs none: its file may be gone.
    """
    if settings.token_file is not None:
        try:
            return read_token(settings.token_file)
        except NoIdentity as exc:
            if not enrolled:
                raise
            log.warning("token_ignored", reason=exc)
            return None
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    path = os.path.join(folder, "token") if folder else None
    try:
        if path is None or not exists(path):
            return None
    except OSError as exc:
        raise NoIdentity(f"{path}: {exc.strerror}") from exc
    return read_token(path, guarded=True)


def tls_context(settings: Settings) -> "ssl.SSLContext | None":
    """Return what the collector is trusted by, None without TLS; or CannotRun."""
    if not settings.tls:
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=settings.tls_ca)
    except (OSError, ssl.SSLError) as exc:
        raise CannotRun(
            f"tls_ca = {settings.tls_ca}: {exc.strerror or exc}. It names a PEM file "
            "of the authorities to trust; leave it out for the system's"
        ) from exc
