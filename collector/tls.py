"""TLS of both ports, with certificates that can change while it serves.

A new certificate is tried in a context of its own first; only one that is
good replaces the one in use, for handshakes from then on. Connections that
are open stay as they are.
"""

import ssl
from pathlib import Path

from .settings import Settings


class BadTls(RuntimeError):
    """A certificate, key or authority that can't be used; the text says why."""


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """Return the context of both ports, None without TLS; or BadTls."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _load(context, settings.tls_cert, settings.tls_key)
    if settings.tls_client_ca is not None:
        try:
            context.load_verify_locations(settings.tls_client_ca)
        except (OSError, ssl.SSLError) as exc:
            raise BadTls(
                f"tls_client_ca = {settings.tls_client_ca}: {exc.strerror or exc}. It "
                "names a PEM file of the authorities that sign clients' certificates"
            ) from exc
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    for name, path in (("tls_cert", cert), ("tls_key", key)):
        try:
            path.open("rb").close()
        except OSError as exc:
            raise BadTls(f"{name} = {path}: {exc.strerror}") from exc
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as exc:
        raise BadTls(
            f"tls_cert {cert} and tls_key {key} don't go together, or are no PEM "
            f"files: {exc.reason or exc}"
        ) from exc


class Certificates:
    """The certificate in use, and how its files looked when it was loaded."""

    def __init__(self, settings: Settings, context: ssl.SSLContext) -> None:
        """Take the context that `tls_context` made of these settings."""
        self._settings = settings
        self._context = context
        self._paths = [
            p for p in (settings.tls_cert, settings.tls_key) if p is not None
        ]
        self._seen = self._stamps()

    def changed(self) -> bool:
        """Whether the files differ from what was loaded, or tried, last."""
        return self._stamps() != self._seen

    def reload(self) -> None:
        """Use what the files hold now; BadTls leaves the old one in use."""
        self._seen = self._stamps()
        tls_context(self._settings)  # a bad one must not touch what is in use
        _load(self._context, *self._paths)

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
