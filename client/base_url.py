"""Where the collector is: a URL as people write it.

A bare HOST or HOST:PORT is http, on the collector's own port unless it names
one. A path is kept, for a collector behind a proxy that gives it a prefix.
What can't be meant for a collector is refused: another scheme, a query, and
a user or password, which would end up in logs.
"""

import re
from urllib.parse import urlsplit

DEFAULT_URL = "http://127.0.0.1:7767"
_PORT = 7767
_EXPECTED = f"expected http(s)://HOST:PORT, such as {DEFAULT_URL}"
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\\]")


class BadUrl(ValueError):
    """Text that is no collector's URL; says what was expected."""


def parse_base(text: str) -> str:
    """Return the URL that routes are appended to, without a slash at its end."""
    if "@" in text:
        # Not echoed: what stands before the @ may be a password.
        raise BadUrl(f"{_EXPECTED}, without a user: a token goes in TRIMTAB_TOKEN")
    if not text or _UNSEEN.search(text):
        raise BadUrl(f"{_EXPECTED}, got {text!r}")
    bare = "://" not in text
    try:
        parts = urlsplit(f"http://{text}" if bare else text)
        port = parts.port
    except ValueError as exc:
        raise BadUrl(f"{_EXPECTED}, got {text!r}: {exc}") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise BadUrl(f"{_EXPECTED}, got {text!r}")
    if parts.query or parts.fragment:
        raise BadUrl(f"{_EXPECTED}, without ? and #, got {text!r}")
    if bare and port is None:
        port = _PORT
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    authority = host if port is None else f"{host}:{port}"
    return f"{parts.scheme}://{authority}{parts.path.rstrip('/')}"
