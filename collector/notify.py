"""Readiness and watchdog for systemd (sd_notify(3)); silent elsewhere."""

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send a state such as READY=1. A manager that is gone is no error."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.setblocking(False)
        channel.sendto(state.encode(), address)
