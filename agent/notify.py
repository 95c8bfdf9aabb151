"""Readiness and watchdog for systemd (sd_notify(3)); silent elsewhere."""

import os
import socket


class Manager:
    """The service manager that started this process, if one did."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        env = os.environ if environment is None else environment
        address = env.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the abstract namespace.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        usec = env.get("WATCHDOG_USEC", "")
        self.watchdog_s = int(usec) / 1e6 if usec.isdigit() else None

    def tell(self, state: str) -> None:
        """Send a state such as READY=1. A manager that is gone is no error."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.setblocking(False)
                channel.sendto(state.encode(), self._address)
        except OSError:
            return
