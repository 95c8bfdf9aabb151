"""Tokens: what admits an agent, an operator or a program.

A token is 32 random bytes, shown once at its creation; the store holds its
SHA-256, which needs no salt or stretching since nothing of 256 random bits
can be guessed. While there never was a credential the collector is open,
and then listens on loopback only unless told to be insecure.
"""

import hashlib
import secrets
from collections.abc import Iterable

from .store import Credential

SCOPES = ("agent", "read", "route", "admin")
_PREFIX = "tt_"


def new_token() -> str:
    """Return a token nobody has seen."""
    return _PREFIX + secrets.token_urlsafe(32)


def digest(secret: str | bytes) -> bytes:
    """Return what may be stored of a token or a key."""
    data = secret.encode() if isinstance(secret, str) else secret
    return hashlib.sha256(data).digest()


def new_credential(
    token: str, scopes: Iterable[str], label: str, now: float, expires: float | None
) -> Credential:
    """Return the record of a token."""
    return Credential(
        ident=secrets.token_hex(4),
        token_hash=digest(token),
        scopes=frozenset(scopes),
        label=label,
        created=now,
        expires=expires,
    )


class Credentials:
    """The valid tokens, in memory. `admin` covers every other scope."""

    def __init__(self, known: Iterable[Credential], *, may_be_open: bool) -> None:
        """Take what is known; `may_be_open`: without any, everyone is let in."""
        self._may_be_open = may_be_open
        self._by_hash: dict[bytes, Credential] = {}
        self.replace(known)

    def replace(self, known: Iterable[Credential]) -> None:
        """Take up what the store holds now."""
        self._by_hash = {c.token_hash: c for c in known}

    def known(self) -> list[Credential]:
        """Return every credential there ever was."""
        return list(self._by_hash.values())

    @property
    def open(self) -> bool:
        """Whether everyone is let in: there never was a token, nor need be one."""
        return self._may_be_open and not self._by_hash

    def allows(self, token: str | None, scope: str, now: float) -> bool:
        """Whether the token, at Unix time `now`, admits to the scope.

        The look-up is by digest: its timing tells nothing of the token.
        """
        if self.open:
            return True
        held = self.find(token, now)
        return held is not None and bool({scope, "admin"} & held.scopes)

    def find(self, token: str | None, now: float) -> Credential | None:
        """Return the credential of a token that is valid at Unix time `now`."""
        if token is None or not token.isascii():  # ours all are
            return None
        held = self._by_hash.get(digest(token))
        return held if held is not None and valid(held, now) else None


def valid(credential: Credential, now: float) -> bool:
    """Whether it admits at Unix time `now`: neither revoked nor expired."""
    return credential.revoked is None and (
        credential.expires is None or credential.expires > now
    )
