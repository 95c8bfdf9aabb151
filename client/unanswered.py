"""Why no answer came, and what to do about it.

From the HTTP library's error and the URL alone. Left out: what an answer says,
see refusals.py.
"""

import errno
import ssl
from ipaddress import ip_address
from urllib.parse import urlsplit

from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

# openssl/x509_vfy.h: X509_V_ERR_CERT_NOT_YET_VALID, …_HAS_EXPIRED,
# …_HOSTNAME_MISMATCH, …_IP_ADDRESS_MISMATCH.
_WRONG_TIME, _WRONG_NAME = (9, 10), (62, 64)
_PORTS = "the API is on port 7767 unless set, frames on 7766"


def unanswered(line: str, url: str, exc: HTTPError) -> str:
    """Return what to say; `line` is what was asked, `url` the collector's."""
    match exc:
        case NameResolutionError() | LocationParseError():
            return (
                f"{url}: the name {urlsplit(url).hostname!r} has no address: check "
                "it in --url or TRIMTAB_URL, or ask by IP address"
            )
        case NewConnectionError() | ConnectTimeoutError():
            return _unconnected(url, exc)
        case ReadTimeoutError():
            return (
                f"{line}: no answer in time: is it overloaded, or is that another "
                f"service's port? In a collector {_PORTS}"
            )
        case SSLError():
            return f"{line}: {_insecure(url, exc)}"
        case _:
            tls = url.startswith("https:")
            return (
                f"{line}: the connection broke, or HTTP is not spoken there: {exc}. "
                f"Does the collector speak {'plain HTTP' if tls else 'TLS'}? Try "
                f"{other_scheme(url)}; {_PORTS}"
            )


def other_scheme(url: str) -> str:
    """Return the same place, asked with TLS instead of without or vice versa."""
    scheme, _, rest = url.partition("://")
    return f"{'http' if scheme == 'https' else 'https'}://{rest}"


def _unconnected(url: str, exc: HTTPError) -> str:
    cause = exc.__cause__
    why = cause.strerror if isinstance(cause, OSError) and cause.strerror else None
    said = f"no collector answers at {url} ({why or 'no connection in time'})"
    if _is_loopback(urlsplit(url).hostname or ""):
        return (
            f"{said}: start one with 'trimtab-collector run', or set --url or "
            "TRIMTAB_URL to where one runs"
        )
    if isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED:
        return (
            f"{said}: it may not run, listen on another port, or listen on loopback "
            "only, as it does unless its http_listen names another address"
        )
    return (
        f"{said}: check the address, that the host is up, and that no firewall is in "
        f"the way; {_PORTS}"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _insecure(url: str, exc: SSLError) -> str:
    cause = exc.args[0] if exc.args else None
    if not isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"TLS could not be set up: {exc}. A collector without tls_cert speaks "
            f"plain HTTP: try {other_scheme(url)}"
        )
    said = f"its certificate is not trusted: {cause.verify_message}"
    if cause.verify_code in _WRONG_NAME:
        return f"{said}. Ask by a name that the certificate holds"
    if cause.verify_code in _WRONG_TIME:
        return f"{said}. Renew the collector's tls_cert, or set this host's clock"
    return (
        f"{said}. Name a private authority's file by --cacert, TRIMTAB_CA or "
        "SSL_CERT_FILE"
    )
