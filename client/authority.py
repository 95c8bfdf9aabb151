"""Whom to trust with TLS: the system's authorities, or those of one file.

Left out: client certificates, since a token says who asks.
"""

import os
import ssl


class BadAuthority(ValueError):
    """A file that holds no authority's certificate; says what was expected."""


def trust(ca_file: str | os.PathLike[str] | None) -> ssl.SSLContext | None:
    """Return what trusts the PEM file's certificates alone; None for the system's.

    SSL_CERT_FILE names the system's, as OpenSSL has it.
    """
    if ca_file is None:
        return None
    # Not create_default_context, which trusts the system for a file named "".
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=ca_file)
    except ssl.SSLError as exc:
        raise BadAuthority(
            f"{os.fspath(ca_file)!r}: expected certificates in PEM: {exc}"
        ) from exc
    except OSError as exc:
        raise BadAuthority(
            f"{os.fspath(ca_file)!r}: can't be read: {exc.strerror}"
        ) from exc
    except ValueError as exc:  # a name that can be none
        raise BadAuthority(f"{os.fspath(ca_file)!r}: {exc}") from exc
    return context
