"""How much a peer may send, checked before memory is taken for it."""

# A hello of every list full of 60-character texts fits; a frame takes under 5 KiB.
MESSAGE_BYTES = 64 * 1024
STRING_BYTES = 2048  # 500 characters of refused.text, at four bytes each
BINARY_BYTES = 64
ARRAY_ITEMS = 320  # holes: 4 signals of each link and 10 of the host are 270
HOLDS = 256
MAP_ITEMS = 64

# Integers travel as at most 53 bits, so that every language can hold them.
SAFE_INTEGER = 2**53 - 1
UINT32 = 2**32 - 1

LINKS = 65  # the collector and at most 64 targets
