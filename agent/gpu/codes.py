"""NVML's return codes that mean something to us, and what they ask for.

Numbers from nvml.h, written here so that the agent's process, which never loads
pynvml, can name them.
"""

UNINITIALIZED = 1
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
ARGUMENT_VERSION_MISMATCH = 25
DEPRECATED = 26
UNKNOWN = 999
BUG = -1  # ours: an exception that is none of NVML's

# The device, its driver or this user will never answer: neutral, not an error.
UNSUPPORTED = frozenset(
    {
        NOT_SUPPORTED,
        NO_PERMISSION,
        FUNCTION_NOT_FOUND,
        ARGUMENT_VERSION_MISMATCH,
        DEPRECATED,
    }
)
# Nothing more is asked of such a device until its handle is obtained anew:
# drivers have crashed on it.
GONE = frozenset({GPU_IS_LOST, RESET_REQUIRED})
# No driver or no library, or one too old to open.
ABSENT = frozenset({DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND})

TEXTS = {
    NOT_SUPPORTED: "not supported by this device",
    NO_PERMISSION: "not permitted to this user",
    DRIVER_NOT_LOADED: "the driver is not loaded",
    TIMEOUT: "timed out",
    LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not there",
    FUNCTION_NOT_FOUND: "not offered by this driver",
    GPU_IS_LOST: "the GPU is lost",
    RESET_REQUIRED: "the GPU needs a reset",
    LIB_RM_VERSION_MISMATCH: "library and driver are of different versions",
    UNKNOWN: "unknown error",
}


def text(code: int) -> str:
    """Return what a code says, with its number."""
    return f"{TEXTS.get(code, 'NVML error')} ({code})"
