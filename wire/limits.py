"""How much a peer may send, checked before memory is taken for it."""

# A hello of every list full of 60-character texts fits; a frame takes under 20 KiB.
MESSAGE_BYTES = 64 * 1024
STRING_BYTES = 2048  # 500 characters of refused.text, at four bytes each
BINARY_BYTES = 64
# Room for an array is taken at its header, so this bounds what nesting can take.
# Holes that agents have at worst fit: 24 of the host, 2 of each link and 8 of each
# of 16 GPUs are 282. Of more, the first are sent.
ARRAY_ITEMS = 320
HOLDS = 256
MAP_ITEMS = 64

# Integers travel as at most 53 bits, so that every language can hold them.
SAFE_INTEGER = 2**53 - 1
UINT16 = 2**16 - 1
UINT32 = 2**32 - 1
INT32 = 2**31 - 1

LINKS = 65  # the collector and at most 64 targets
GPUS = 32
MIGS = 16  # instances of one GPU; today's have at most 7
