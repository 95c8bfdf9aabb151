"""`trimtab-agent run`: signals around the agent of the standard mode."""

import asyncio
import signal

from .agent import Agent
from .clocks import SLEEP_SIGNAL
from .notify import Manager
from .starting import Start


def serve(start: Start) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reads the settings again."""

    async def run() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        agent = Agent(start, Manager())
        loop.add_signal_handler(signal.SIGHUP, agent.reload)
        if SLEEP_SIGNAL is not None:
            loop.add_signal_handler(SLEEP_SIGNAL, agent.announce_sleep)
        await agent.run(stopping)

    try:
        asyncio.run(run())
    finally:
        start.host.close()
