"""The messages, as values. `None` is "no reading", never zero.

Units are in the names; shares run from 0.0 to 1.0. Layout and scales of the
bytes are in encode.py and docs/wire.md.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from .signals import State
from .version import PROTOCOL


class Kind(IntEnum):
    """First item of each message. Retired numbers stay reserved."""

    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    FRAME = 4
    ECHO = 5
    ACK = 6
    BYE = 7


class Method(IntEnum):
    """How a link's round trips were measured."""

    ECHO = 1  # on the collector connection; TCP hides loss
    ICMP_DATAGRAM = 2
    ICMP_RAW = 3
    TCP_CONNECT = 4
    TCP_INFO = 5  # the kernel's own estimate on the collector connection


class Scope(IntEnum):
    """Whose limit or pressure a value is of."""

    HOST = 1
    CONTAINER = 2  # a cgroup below the host's root


class GpuState(IntEnum):
    """How the GPU section of a frame came about."""

    OK = 0
    ABSENT = 1  # no driver or no NVML: not an error
    STARTING = 2
    STALLED = 3  # no answer by the deadline; the values are old
    CRASHED = 4  # the child died and is started again
    RESTART_NEEDED = 5  # driver and library differ: reboot or reload the driver
    CONTAINER_RESTART_NEEDED = 6  # the container lost its devices
    PAUSED = 7  # let go on request
    ASLEEP = 8  # runtime suspended, and left so
    DENIED = 9  # no permission


class GpuMethod(IntEnum):
    """How a GPU's effective utilisation was measured."""

    GPM = 1  # the larger of SM and DRAM bandwidth utilisation
    POWER = 2  # from power above idle: low confidence
    BUSY_ONLY = 3  # not at all


class GpuHealth(IntEnum):
    """How far a GPU may be used."""

    OK = 0
    LOWERED = 1
    ZERO = 2


class Reason(IntEnum):
    """Why a collector refuses."""

    OTHER = 0  # a reason of a newer version: the text says it
    MALFORMED = 1
    PROTOCOL = 2  # no version in common
    CREDENTIAL = 3  # token or key missing, wrong or revoked
    ORDER = 4  # a message before hello
    LIMIT = 5  # too large, too many, too often
    STOPPING = 6


class Farewell(IntEnum):
    """Why a peer says bye."""

    STOP = 1
    SLEEP = 2
    RESTART = 3


class GpuInfo(NamedTuple):
    """What a GPU is."""

    device: int  # as the driver counts, 0..31
    uuid: str
    name: str
    memory_mib: int | None = None
    unified: bool | None = None  # its memory is the host's
    mig: bool | None = None  # MIG mode is on


class Inventory(NamedTuple):
    """What a node is, as far as it knows; every unknown is None or empty."""

    cpus: int | None = None  # usable: online, not isolated
    memory_mib: int | None = None
    targets: tuple[str, ...] = ()  # what link 1, 2, … of its frames lead to
    address: str | None = None  # where tasks for this node go, HOST:PORT
    site: str | None = None
    zone: str | None = None
    operator: str | None = None
    groups: tuple[str, ...] = ()  # shared risk: fibre, power, rack
    labels: Mapping[str, str] = {}
    holds: tuple[str, ...] = ()  # data and models on this node
    resources: Mapping[str, int] = {}  # countable: FPGA, licences
    price: float | None = None  # per hour, in the operator's own unit
    slots: int | None = None  # tasks served at once; None: usable CPUs
    speed: float | None = None  # nominal, relative; None: 1
    cpu_quota: float | None = None  # CPUs; None: not known, or no quota
    memory_limit_mib: int | None = None  # of a cgroup; None: not known, or none
    gpus: tuple[GpuInfo, ...] = ()
    ephemeral: bool | None = None  # forget it once it is gone for long
    mode: str | None = None  # "standard" or "edge"


class Hello(NamedTuple):
    """Who is calling. First on each connection, again on new inventory."""

    node_id: bytes  # 16 random bytes made at enrolment
    boot_id: bytes  # 16 bytes, new at each boot
    name: str
    key: bytes | None = None  # 32 random bytes made at enrolment
    token: str | None = None  # only to enrol
    machine: bytes | None = None  # 16 bytes, app-specific hash of machine id
    agent_version: str = ""
    interval_ms: int = 1000
    silence_ms: int | None = None  # longest silence it may keep
    boot_ms: int = 0  # boot clock when this was sent
    inventory: Inventory = Inventory()
    protocol: int = PROTOCOL


class Welcome(NamedTuple):
    """The collector's yes."""

    name: str  # what the node is shown as
    server_ms: int  # Unix time
    interval_ms: int | None = None  # wanted cadence; None: as announced
    peers: tuple[str, ...] = ()  # addresses to ping, beside its own targets
    stored_seq: int | None = None  # highest sequence stored for this boot
    protocol: int = PROTOCOL


class Refused(NamedTuple):
    """The collector's no, and what to do about it."""

    reason: Reason
    text: str
    retry_s: int | None = None  # None: no sooner than the back-off says


class Cpu(NamedTuple):
    """CPU saturation over the last interval."""

    stall: float | None = None  # share of time some task waited for a CPU
    run_queue: float | None = None  # excess runnable tasks per usable CPU
    steal: float | None = None  # share of time the hypervisor took
    busy: float | None = None  # share of time not idle
    throttled: float | None = None  # share of time a quota held it back
    throttled_periods: float | None = None  # share of quota periods held back
    irq_stall: float | None = None  # share of time lost to interrupts
    scope: Scope | None = None  # of stall and throttling; None: the host


class Memory(NamedTuple):
    """Memory pressure over the last interval."""

    stall_some: float | None = None  # share of time some task waited
    stall_full: float | None = None  # share of time every task waited
    available: float | None = None  # share of memory left without swapping
    swap_in_bytes_s: float | None = None
    swap_out_bytes_s: float | None = None
    major_faults_s: float | None = None
    refaults_s: float | None = None  # pages read again soon after eviction
    high_events: int | None = None  # reclaim forced by a cgroup's soft limit
    max_events: int | None = None  # a cgroup's hard limit reached
    oom_kills: int | None = None
    scope: Scope | None = None  # of available and stall; None: the host


class Io(NamedTuple):
    """I/O pressure over the last interval."""

    stall_some: float | None = None  # share of time some task waited
    stall_full: float | None = None  # share of time every task waited


class Net(NamedTuple):
    """Network interfaces over the last interval."""

    utilisation: float | None = None  # share of link speed: worst NIC, busier way
    errors_s: float | None = None
    drops_s: float | None = None
    softnet_drops_s: float | None = None  # packets dropped for want of a CPU


class Link(NamedTuple):
    """Round trips to one peer: 0 the collector, n the n-th target."""

    peer: int
    method: Method | None = None
    rtt_us: int | None = None  # the latest
    rtt_min_us: int | None = None  # over the window of 60
    rtt_p95_us: int | None = None  # over the window of 60
    jitter_us: int | None = None  # RFC 3550 estimator on round trips
    loss: float | None = None  # share of the window; None where TCP hides it
    retransmits: int | None = None  # segments, in the last interval
    tcp_rtt_us: int | None = None  # the kernel's smoothed estimate
    tcp_rttvar_us: int | None = None  # the kernel's mean deviation


class Mig(NamedTuple):
    """One GPU instance of a GPU that is split."""

    instance: int  # the GPU instance's id
    slices: int  # compute slices
    free_mib: int | None = None
    used_mib: int | None = None


class Gpu(NamedTuple):
    """One GPU; `used` is without what the driver has reserved."""

    device: int  # as the driver counts, 0..31
    health: GpuHealth | None = None
    free_mib: int | None = None
    used_mib: int | None = None
    reserved_mib: int | None = None
    busy: float | None = None  # share of time any kernel ran
    effective: float | None = None  # share of its capacity, as `method` says
    method: GpuMethod | None = None
    pseudo_high: bool | None = None  # busy, but to little effect
    clock: float | None = None  # SM clock / highest, while the hardware throttles
    throttle: int | None = None  # NVML clocks event reasons, the low 32 bits
    power_mw: int | None = None
    temperature_c: int | None = None
    reasons: int | None = None  # why health is not OK: bits as in GPU_REASONS
    xid: int | None = None  # the last one
    mig: tuple[Mig, ...] = ()


class Gpus(NamedTuple):
    """What the GPU probe says."""

    state: GpuState
    age_ms: int | None = None  # of the values; None: fresh
    stranding: float | None = None  # free memory that one task can't use: share
    mig_stranding: float | None = None  # instances that no longer fit: share
    restarts: int = 0  # of the probe's child, by this run of the agent
    devices: tuple[Gpu, ...] = ()


class Hole(NamedTuple):
    """A signal without a fresh value, and why."""

    signal: str
    state: State
    age_ms: int | None = None
    # The link, for signals of links; for those of GPUs the GPU's index + 1, and
    # 0 or None is the section.
    peer: int | None = None


class Frame(NamedTuple):
    """One sample of one host."""

    seq: int  # grows within a boot, over restarts of the agent too
    boot_ms: int  # boot clock at the sample
    gaps: int = 0  # samples of this run that were dropped and never sent
    cpu: Cpu = Cpu()
    memory: Memory = Memory()
    links: tuple[Link, ...] = ()
    holes: tuple[Hole, ...] = ()
    gpus: Gpus | None = None  # None: no GPU probe
    io: Io = Io()
    net: Net = Net()
    clock_offset_ms: int | None = None  # the agent's wall clock - the collector's


class Echo(NamedTuple):
    """A question, or its answer with the same id and stamp."""

    reply: bool
    ident: int
    stamp_us: int  # the asker's clock, meaningless to the other side
    unix_ms: int | None = None  # only in answers: the answerer's wall clock


class Ack(NamedTuple):
    """Every frame of this boot up to `seq` is stored; forget them."""

    seq: int


class Bye(NamedTuple):
    """An orderly end."""

    why: Farewell = Farewell.STOP
    back_s: int | None = None  # expected return, if known


Message = Hello | Welcome | Refused | Frame | Echo | Ack | Bye
