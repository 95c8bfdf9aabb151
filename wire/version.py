"""The version of this trimtab, and of the protocol it speaks."""

VERSION = "0.1.0"

# Raised only when old and new can no longer meet. Everything else appends
# fields, which an older reader ignores and a newer one finds missing.
PROTOCOL = 1
