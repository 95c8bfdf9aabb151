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


class Memory(NamedTuple):
    """Memory pressure over the last interval."""

    stall_some: float | None = None  # share of time some task waited
    stall_full: float | None = None  # share of time every task waited
    available: float | None = None  # share of memory left without swapping
    swap_in_bytes_s: float | None = None
    swap_out_bytes_s: float | None = None
    major_faults_s: float | None = None


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


class Hole(NamedTuple):
    """A signal without a fresh value, and why."""

    signal: str
    state: State
    age_ms: int | None = None
    peer: int | None = None  # the link, for signals of links


class Frame(NamedTuple):
    """One sample of one host."""

    seq: int  # grows within a boot, over restarts of the agent too
    boot_ms: int  # boot clock at the sample
    gaps: int = 0  # samples of this run that were dropped and never sent
    cpu: Cpu = Cpu()
    memory: Memory = Memory()
    links: tuple[Link, ...] = ()
    holes: tuple[Hole, ...] = ()


class Echo(NamedTuple):
    """A question, or its answer with the same id and stamp."""

    reply: bool
    ident: int
    stamp_us: int  # the asker's clock, meaningless to the other side


class Ack(NamedTuple):
    """Every frame of this boot up to `seq` is stored; forget them."""

    seq: int


class Bye(NamedTuple):
    """An orderly end."""

    why: Farewell = Farewell.STOP
    back_s: int | None = None  # expected return, if known


Message = Hello | Welcome | Refused | Frame | Echo | Ack | Bye
