"""HOST:PORT as people write it, and whether it stays on this host."""

import ipaddress
from typing import NamedTuple


class Address(NamedTuple):
    """Where to listen. An IPv6 host is without its brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this host can reach it. Names count as outside."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: object) -> Address:
    """Return the address; ValueError says what was expected."""
    expected = "HOST:PORT, such as 127.0.0.1:7766 or [::1]:7766"
    if not isinstance(text, str):
        raise TypeError(f"expected {expected}, got {text!r}")
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"expected {expected}; IPv6 needs brackets, got {text!r}")
    if not (colon and host and port.isascii() and port.isdigit()):
        raise ValueError(f"expected {expected}, got {text!r}")
    if int(port) > 65_535:
        raise ValueError(f"expected a port 0..65535, got {port}")
    return Address(host, int(port))
