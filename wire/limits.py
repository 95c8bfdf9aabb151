"""How much a peer may send, checked before memory is taken for it."""

# A hello with every list full fits in 64 KiB; a frame with 16 GPUs in 4 KiB.
MESSAGE_BYTES = 64 * 1024
STRING_CHARS = 1024
BINARY_BYTES = 64
ARRAY_ITEMS = 256
MAP_ITEMS = 64

# Integers travel as at most 53 bits, so that every language can hold them.
SAFE_INTEGER = 2**53 - 1
UINT32 = 2**32 - 1

LINKS = 65  # the collector and at most 64 targets
