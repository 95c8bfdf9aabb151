"""The cost of a node for a task: the expected time to its answer, in ms.

    u    = (q + 1) / slots + max(0, used - q / slots - 0.25)
    cost = rtt + s · (w + u² (0.6 w̄ + 0.4 w))

with q the tasks in flight, `used` the share of the node in use by its reading,
s its slowness (service.py), inflated if it stalls (stall.py), w the work of
the task and w̄ the mean work of the recent mix, both in ms on a nominal node:
what is waited for is the others' work. A reading is late, and most of it is
our own work, so it counts only as far as that does not explain it. A cost is
linear in w, and so is kept as base and slope until the node's load changes.
"""

# Found by simulation: the best of the powers and factors tried.
QUEUE_GAIN = 1.0
MIX_SHARE = 0.6  # of the wait is for the mix; the rest grows with the task
# A reading may show so much more than our own work without anybody else's.
UNCLEAR = 0.25
# One that failed and has not succeeded since gets one task at a time.
FAILED = 1000.0
