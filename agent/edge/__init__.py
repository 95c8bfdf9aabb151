"""Edge mode: the same probes and frames in a shell of one selector.

For boxes with little memory and links that drop for hours. No asyncio, no
threads, no echo of its own, nothing written to disk after enrolment.
"""
