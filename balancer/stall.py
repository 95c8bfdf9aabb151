"""A black hole swallows work and never fails: what should have come back did not.

Of the work a node has, so much ought to have been answered in the time since
its last success. Twice that without a word, and it is counted as slower, the
more the longer it lasts: seen by the age of leases, long before any timeout.
"""

# Answers due that may be missing by chance, and how fast doubt grows beyond.
PATIENCE = 2.0
DOUBT = 1 / 3


def inflation(answers: float) -> float:
    """Return the factor on a node's slowness, for so many answers overdue."""
    return 1.0 + max(0.0, answers - PATIENCE) * DOUBT
