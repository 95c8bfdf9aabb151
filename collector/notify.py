"""Readiness and watchdog for systemd (sd_notify(3)); silent elsewhere."""

import os
import socket


def notify(state: str) -> None:
    """Send a state such as READY=1 to the service manager, if there is one."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(state.encode(), address)
