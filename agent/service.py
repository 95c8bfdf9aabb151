"""`trimtab-agent run`: signals around the agent."""

import gc
import signal

from .agent import Agent
from .clocks import SLEEP_SIGNAL
from .loop import Loop
from .notify import Manager
from .starting import Start


def serve(start: Start) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reads the settings again."""
    loop = Loop()
    agent = Agent(start, Manager(), loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.on_signal(number, agent.stop)
    if hasattr(signal, "SIGHUP"):  # not on Windows
        loop.on_signal(signal.SIGHUP, agent.reload)
    if SLEEP_SIGNAL is not None:
        loop.on_signal(SLEEP_SIGNAL, agent.announce_sleep)
    # What there is by now stays: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    try:
        agent.run()
    finally:
        start.host.close()
