"""The GPU probe's claims, tried on a real GPU: ten steps, five minutes, JSON out.

    python bench/gpu_check.py [--out FILE] [--quick]

Written for one H200; tolerances are guesses. Each step is a child process of its
own, so that one starts without the other's CUDA context and none can hang the
rest. Steps 2 to 9 need PyTorch with CUDA. Without a GPU the answer is
`{"gpu": null, "reason": ...}`, with exit status 0. It never provokes an Xid,
enables MIG or resets a GPU. `--quick` shortens waits and loads, for a stub.
"""

import argparse
import ctypes
import importlib
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pynvml

from trimtab.agent.emit import Log
from trimtab.agent.gpu.judge import Epoch, Judge
from trimtab.agent.gpu.probe import GpuProbe
from trimtab.agent.gpu.reader import MEMBERS, Reader
from trimtab.agent.loop import Loop
from trimtab.wire import Gpu

MIB = 2**20
GIB = 2**30
STEP_S = 90  # at most, for one
CLOSE_MIB = 128

Result = dict[str, Any]


def fgd(free: Sequence[float], mix: Sequence[tuple[float, int, float]]) -> float:
    """Return the fragmentation share of FGD (ATC'23), in bytes for fractions.

    `mix` holds (probability, devices, bytes on each). For a class that the node
    can't run, all that is free is lost to it; else what lies on too small GPUs.
    """
    total = sum(free)
    lost = 0.0
    for probability, devices, size in mix:
        fitting = [f for f in free if f >= size]
        runs = len(fitting) >= devices
        lost += probability * (total - sum(fitting) if runs else total)
    return lost / total


MIX = ((0.5, 1, 10.0), (0.3, 1, 80.0), (0.2, 1, 160.0))


class Run(NamedTuple):
    """How long things last, and the trees in which the agent looks for a GPU."""

    baseline_s: float = 20.0
    load_s: float = 10.0
    agent_s: float = 30.0
    root: Path = Path("/")


QUICK = Run(2.0, 2.0, 3.0)


def result(expected: str, seen: object, *, ok: bool) -> Result:
    return {"expected": expected, "seen": seen, "ok": ok}


def torch() -> Any:
    return importlib.import_module("torch")


# What is measured by NVML itself


@contextmanager
def first_gpu() -> Iterator[Any]:
    pynvml.nvmlInit()
    try:
        yield pynvml.nvmlDeviceGetHandleByIndex(0)
    finally:
        pynvml.nvmlShutdown()


def used_mib(handle: Any) -> float:
    """Return v1's used: reserved is in it and does not change."""
    return float(pynvml.nvmlDeviceGetMemoryInfo(handle).used / MIB)


def attempt(question: Callable[[], Any]) -> object:
    """Return the answer, or the error's name."""
    try:
        answer = question()
    except pynvml.NVMLError as exc:
        return type(exc).__name__.removeprefix("NVMLError_")
    return answer


def timed(question: Callable[[], Any], most_s: float) -> Result:
    """Return p50 and p99 in milliseconds of at most 100 calls."""
    took_ms: list[float] = []
    until = time.perf_counter() + most_s
    while len(took_ms) < 100 and time.perf_counter() < until:
        started = time.perf_counter()
        answer = attempt(question)
        took_ms.append((time.perf_counter() - started) * 1000)
    took_ms.sort()
    return {
        "calls": len(took_ms),
        "p50_ms": round(took_ms[len(took_ms) // 2], 3),
        "p99_ms": round(took_ms[min(len(took_ms) - 1, len(took_ms) * 99 // 100)], 3),
        "error": answer if isinstance(answer, str) else None,
    }


def baseline(run: Run) -> Result:
    nvml = pynvml
    with first_gpu() as h:
        v1 = nvml.nvmlDeviceGetMemoryInfo(h)
        v2 = nvml.nvmlDeviceGetMemoryInfo(h, version=nvml.nvmlMemory_v2)
        recovery = nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
        gpm = attempt(lambda: nvml.nvmlGpmQueryDeviceSupport(h).isSupportedDevice)
        mig = attempt(lambda: nvml.nvmlDeviceGetMigMode(h))
        remaining = attempt(
            lambda: nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(h, 0)
        )
        action = attempt(lambda: field(h, recovery))
        sums = [
            name
            for name, whole in (
                ("reserved+used+free", v2.reserved + v2.used + v2.free),
                ("used+free", v2.used + v2.free),
            )
            if abs(whole - v2.total) <= 2 * MIB
        ]
        calls: dict[str, Callable[[], Any]] = {
            "memory_v2": lambda: nvml.nvmlDeviceGetMemoryInfo(
                h, version=nvml.nvmlMemory_v2
            ),
            "utilization": lambda: nvml.nvmlDeviceGetUtilizationRates(h),
            "power": lambda: nvml.nvmlDeviceGetPowerUsage(h),
            "power_limit": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(h),
            "temperature": lambda: nvml.nvmlDeviceGetTemperature(h, 0),
            "clock_reasons": lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(h),
            "fields": lambda: nvml.nvmlDeviceGetFieldValues(h, [recovery]),
            "remapped_rows": lambda: nvml.nvmlDeviceGetRemappedRows(h),
            "processes": lambda: nvml.nvmlDeviceGetComputeRunningProcesses(h),
            "mig_mode": lambda: nvml.nvmlDeviceGetMigMode(h),
        }
        each_s = run.baseline_s / len(calls)
        seen = {
            "total_mib": v2.total // MIB,
            "reserved_mib": v2.reserved // MIB,
            "v1_used_less_v2_used_mib": (v1.used - v2.used) / MIB,
            "v2_sums_that_hold": sums,
            "gpm": gpm,
            "mig_mode": mig,
            "remaining_capacity": remaining,
            "recovery_action": action,
            "calls": {name: timed(call, each_s) for name, call in calls.items()},
        }
    started = time.perf_counter()
    reader = Reader()
    seen["open_ms"] = round((time.perf_counter() - started) * 1000, 1)
    seen["sample"] = timed(lambda: reader.sample(1), each_s)
    seen["rss_mib"] = round(reader.sample(1).rss_kib / 1024, 1)
    reader.close()
    return result(
        "total about 143771 MiB; one v2 sum holds; v1.used - v2.used is reserved or "
        "0; GPM 1; MIG [0, 0]; remaining capacity NotSupported; recovery action 0",
        seen,
        ok=bool(sums)
        and abs(v2.total / MIB - 143_771) < 1024
        and (
            abs(v1.used - v2.used) <= 2 * MIB
            or abs(v1.used - v2.used - v2.reserved) <= 2 * MIB
        )
        and (gpm, mig, remaining, action) == (1, [0, 0], "NotSupported", 0),
    )


def field(handle: Any, number: int) -> object:
    (value,) = pynvml.nvmlDeviceGetFieldValues(handle, [number])
    if value.nvmlReturn:
        return f"error {value.nvmlReturn}"
    return getattr(value.value, MEMBERS[value.valueType])


# What needs CUDA


def context(_: Run) -> Result:
    with first_gpu() as h:
        before = used_mib(h)
        kept = torch().empty(1, device="cuda")
        rise = used_mib(h) - before
        pids = [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(h)]
        del kept
    return result(
        "a rise of some hundred MiB; our PID listed",
        {"rise_mib": rise, "pid_listed": os.getpid() in pids, "pids": len(pids)},
        ok=rise > 0 and os.getpid() in pids,
    )


def gib_blocks(count: int) -> list[Any]:
    t = torch()
    return [t.empty(GIB, dtype=t.uint8, device="cuda") for _ in range(count)]


def of_this_process(handle: Any) -> float | None:
    for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
        if process.pid == os.getpid() and process.usedGpuMemory is not None:
            return float(process.usedGpuMemory / MIB)
    return None


def allocated(_: Run) -> Result:
    t = torch()
    with first_gpu() as h:
        t.empty(1, device="cuda")
        before, own = used_mib(h), of_this_process(h)
        room = t.cuda.mem_get_info()[0]
        kept = gib_blocks(40)
        t.cuda.synchronize()
        rises = {
            "nvml_mib": used_mib(h) - before,
            "process_mib": None if own is None else (of_this_process(h) or 0) - own,
            "mem_get_info_mib": (room - t.cuda.mem_get_info()[0]) / MIB,
        }
        del kept
    return result(
        f"each +40960 MiB, within {CLOSE_MIB}",
        rises,
        ok=all(v is not None and abs(v - 40_960) <= CLOSE_MIB for v in rises.values()),
    )


def slack(_: Run) -> Result:
    t = torch()
    with first_gpu() as h:
        kept = gib_blocks(40)
        t.cuda.synchronize()
        before, held = used_mib(h), t.cuda.memory_allocated()
        del kept[::2]
        t.cuda.synchronize()
        seen = {
            "allocated_gib": (t.cuda.memory_allocated() - held) / GIB,
            "nvml_mib": used_mib(h) - before,
        }
    return result(
        "allocated -20 GiB; NVML moves less than 16 MiB: slack can't be seen",
        seen,
        ok=abs(seen["allocated_gib"] + 20) < 0.1 and abs(seen["nvml_mib"]) < 16,
    )


def emptied(_: Run) -> Result:
    t = torch()
    with first_gpu() as h:
        kept = gib_blocks(40)
        del kept[::2]
        t.cuda.synchronize()
        before = used_mib(h)
        t.cuda.empty_cache()
        t.cuda.synchronize()
        fall = before - used_mib(h)
        del kept
    return result(
        f"NVML -20480 MiB, within {CLOSE_MIB}",
        {"fall_mib": fall},
        ok=abs(fall - 20_480) <= CLOSE_MIB,
    )


def cudart() -> ctypes.CDLL:
    """Return the CUDA runtime: PyTorch's own, or the system's."""
    folder = Path(torch().__file__).parents[1] / "nvidia"
    found = sorted(folder.rglob("libcudart.so*"))
    return ctypes.CDLL(str(found[0]) if found else "libcudart.so")


def holes(_: Run) -> Result:
    torch().empty(1, device="cuda")
    runtime = cudart()

    def allocate(size: int) -> ctypes.c_void_p | None:
        block = ctypes.c_void_p()
        failed = runtime.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(size))
        return None if failed else block

    blocks = [b for b in (allocate(GIB) for _ in range(100)) if b is not None]
    for block in blocks[::2]:
        runtime.cudaFree(block)
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    big = allocate(free.value - 2 * GIB)
    return result(
        "one block of all but 2 GiB of what is free: holes can be used, and free "
        "memory is not fragmented within a GPU",
        {
            "blocks": len(blocks),
            "free_gib": free.value / GIB,
            "one_block_gib": None if big is None else (free.value - 2 * GIB) / GIB,
        },
        ok=len(blocks) == 100 and big is not None,
    )


def share(_: Run) -> Result:
    seen: Result = {}
    with first_gpu() as h:
        kept: list[Any] = []
        for wanted in (100, 60):
            while (free := pynvml.nvmlDeviceGetMemoryInfo(h).free / GIB) > wanted:
                kept += gib_blocks(1)
            seen[f"free_{wanted}"] = {"free_gib": free, "phi": fgd([free], MIX)}
    found = [round(v["phi"], 3) for v in seen.values()]
    return result("0.2 at 100 GiB free, 0.5 at 60", seen, ok=found == [0.2, 0.5])


# What needs a load


def spin(until: float) -> None:
    """One thread of one SM, always busy: a private call of PyTorch."""
    t = torch()
    idle = vars(t.cuda)["_sleep"]  # nothing public does this
    while time.monotonic() < until:
        idle(100_000_000)
        t.cuda.synchronize()


def multiply(until: float, duty: float = 1.0) -> None:
    """Multiply bf16 matrices of 8192, for a share of each 100 ms."""
    t = torch()
    a = t.randn(8192, 8192, device="cuda", dtype=t.bfloat16)
    while (now := time.monotonic()) < until:
        while time.monotonic() < now + 0.1 * duty:
            a @ a
            t.cuda.synchronize()
        time.sleep(0.1 * (1 - duty))


def watched(load: Callable[[float], None], for_s: float) -> list[tuple[Gpu, Any]]:
    """Return what the probe says each second under a load, from its third on."""
    torch().empty(1, device="cuda")
    worker = threading.Thread(target=load, args=(time.monotonic() + for_s + 2,))
    reader, judge, rows = Reader(), Judge(), []
    worker.start()
    try:
        for tick in range(round(for_s) + 2):
            time.sleep(1)
            sample = reader.sample(tick)
            epoch = Epoch(1, sample.enumeration)
            judged = judge.judge(sample.devices, epoch, time.monotonic())
            rows.append((judged.devices[0], sample.devices[0]))
    finally:
        worker.join()
        reader.close()
    return rows[2:]


def summary(rows: Sequence[tuple[Gpu, Any]]) -> Result:
    """Return medians of what was seen, in percent."""

    def median(values: Iterator[float | None]) -> float | None:
        known = sorted(v for v in values if v is not None)
        return known[len(known) // 2] if known else None

    power = [r.power_mw / r.limit_mw for _, r in rows if r.power_mw and r.limit_mw]
    return {
        "busy": median(r.busy for _, r in rows),
        "sm": median(r.gpm.sm if r.gpm else None for _, r in rows),
        "tensor": median(r.gpm.tensor if r.gpm else None for _, r in rows),
        "dram": median(r.gpm.dram if r.gpm else None for _, r in rows),
        "effective": median(g.effective and g.effective * 100 for g, _ in rows),
        "method": rows[-1][0].method.name if rows[-1][0].method else None,
        "power_of_limit": median(iter(p * 100 for p in power)),
        "flagged": rows[-1][0].pseudo_high,
    }


def idle_looking(run: Run) -> Result:
    seen = summary(watched(spin, run.load_s))
    return result(
        "busy at least 95, SM about 1, effective under 5, flagged pseudo-high",
        seen,
        ok=(seen["busy"] or 0) >= 95
        and seen["effective"] is not None
        and seen["effective"] < 5
        and bool(seen["flagged"]),
    )


def working(run: Run) -> Result:
    full = summary(watched(multiply, run.load_s))
    part = summary(watched(lambda until: multiply(until, 0.4), run.load_s))
    return result(
        "SM over 80, tensor over 50, power over 60 % of the limit, unflagged; at 40 % "
        "duty effective 25 to 55",
        {"full": full, "duty_40": part},
        ok=(full["sm"] or 0) > 80
        and (full["tensor"] or 0) > 50
        and (full["power_of_limit"] or 0) > 60
        and not full["flagged"]
        and 25 <= (part["effective"] or 0) <= 55,
    )


def agent(run: Run) -> Result:
    load = None
    with suppress(ImportError):
        torch()
        command = [sys.executable, __file__, "--load", str(run.agent_s + 10)]
        load = subprocess.Popen(command)
    try:
        if load is not None:
            time.sleep(8)  # for its context and first kernels
        seen = framing(run)
    finally:
        if load is not None:
            load.terminate()
            load.wait(30)
    seen["load"] = None if load is None else "bf16 matmul"
    return result(
        "every frame on time; worst gap of the loop under 50 ms",
        seen,
        ok=seen["late_frames"] == 0
        and seen["worst_gap_ms"] < 50
        and seen["states"] == ["OK"],
    )


def framing(run: Run) -> Result:
    """Ask for the section once a second beside a loop that watches for gaps."""
    log = Log(level="error")
    trees = (run.root / name for name in ("sys", "proc", "dev"))
    loop, probe = Loop(), GpuProbe(*trees, log=log)
    probe.start(loop)
    settled_by_s = time.monotonic() + 40
    while not probe.settled and time.monotonic() < settled_by_s:
        loop.turn(settled_by_s)
    worst_s = 0.0
    late = frames = 0
    states: set[str] = set()
    due = until = time.monotonic()
    until += run.agent_s
    while (now := time.monotonic()) < until:
        if now >= due:
            frames += 1
            late += now - due > 0.05
            due += 1
            section = probe.section(now)
            states.add("none" if section is None else section.state.name)
        loop.turn(now + 0.005)
        worst_s = max(worst_s, time.monotonic() - now)
    probe.stop()
    while not probe.ended:
        loop.turn()
    return {
        "frames": frames,
        "late_frames": late,
        "worst_gap_ms": round(worst_s * 1000, 1),
        "states": sorted(states),
    }


STEPS: tuple[tuple[str, Callable[[Run], Result], bool], ...] = (
    ("baseline", baseline, False),
    ("context", context, True),
    ("allocated", allocated, True),
    ("slack", slack, True),
    ("emptied", emptied, True),
    ("holes", holes, True),
    ("fragmentation share", share, True),
    ("one SM looks busy", idle_looking, True),
    ("matrices", working, True),
    ("agent", agent, False),
)


def found() -> Result:
    """Return which GPU there is, and whether PyTorch can use it."""
    try:
        with first_gpu() as handle:
            gpu = pynvml.nvmlDeviceGetName(handle)
            driver = pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError as exc:
        return {"gpu": None, "reason": f"no GPU through NVML: {exc}"}
    try:
        t = torch()
    except ImportError:
        why = "torch is not installed: steps 2 to 9 are skipped"
        return {"gpu": gpu, "driver": driver, "torch": None, "reason": why}
    version = str(t.__version__)
    if not t.cuda.is_available():
        why = f"torch {version} sees no CUDA device: steps 2 to 9 are skipped"
        return {"gpu": gpu, "driver": driver, "torch": None, "reason": why}
    return {"gpu": gpu, "driver": driver, "torch": version, "reason": None}


def in_child(*argv: str) -> Result:
    """Return the JSON of a child of this script, or how it failed."""
    command = [sys.executable, __file__, *argv]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=STEP_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"ok": False, "error": f"no answer within {STEP_S} s"}
    try:
        answer: Result = json.loads(ended.stdout)
    except ValueError:
        last = (ended.stderr.strip().splitlines() or ["nothing"])[-1]
        return {"ok": False, "error": f"exit status {ended.returncode}: {last}"}
    return answer


def commit() -> str | None:
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    return None


def check(*options: str) -> Result:
    """Run every step that this host allows; return the report."""
    report = in_child("--found")
    report |= {
        "machine": f"{platform.machine()}, Linux {platform.release()}",
        "python": platform.python_version(),
        "commit": commit(),
        "command": " ".join(("python bench/gpu_check.py", *options)),
        "steps": [],
    }
    if report.get("gpu") is None:
        report.setdefault("gpu", None)
        report.setdefault("reason", report.get("error"))
        return report
    for number, (name, _, needs_torch) in enumerate(STEPS, start=1):
        step: Result = {"step": number, "name": name}
        if needs_torch and report["torch"] is None:
            step["skipped"] = report["reason"]
        else:
            started = time.monotonic()
            step |= in_child("--step", str(number), *options)
            step["seconds"] = round(time.monotonic() - started, 1)
        report["steps"].append(step)
    return report


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the JSON here too")
    parser.add_argument("--quick", action="store_true", help="short waits and loads")
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        help="where the agent finds sys, proc and dev",
    )
    parser.add_argument("--found", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--step", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--load", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.load is not None:
        multiply(time.monotonic() + args.load)
        return 0
    if args.found:
        answer = found()
    elif args.step is not None:
        run = (QUICK if args.quick else Run())._replace(root=args.root)
        answer = STEPS[args.step - 1][1](run)
    else:
        options = ["--quick"] if args.quick else []
        if args.root != Path("/"):
            options += ["--root", str(args.root)]
        answer = check(*options)
    text = json.dumps(answer, indent=2, default=str)
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n")
    failed = [s for s in answer.get("steps", ()) if s.get("ok") is False]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
