"""A host of files of our own, which tests write and rewrite as time goes on."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from trimtab.agent.host import Host

IDLE_HOST = {
    "proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 15938355 kB\n",
    "proc/vmstat": "pswpin 0\npswpout 0\npgmajfault 0\noom_kill 0\n"
    "workingset_refault_anon 0\nworkingset_refault_file 0\n",
}


class Tree:
    """procfs and sysfs under one folder."""

    def __init__(self, folder: Path, files: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        (folder / "proc").mkdir()
        (folder / "sys").mkdir()
        self.write(files or {})

    def write(self, files: Mapping[str, str], under: str = "") -> None:
        """Write files by their path; a path may go below `under`."""
        for name, text in files.items():
            path = self.folder / under / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def remove(self, name: str) -> None:
        """Remove a folder."""
        shutil.rmtree(self.folder / name)

    def host(self, cgroup: str | None = None) -> Host:
        """Return the host, which closes nothing by itself."""
        return Host(self.folder / "proc", self.folder / "sys", cgroup)


def ticks(seconds: float, busy: float, cpus: int = 4) -> str:
    """Return procfs stat after so long, of which each CPU was busy a share."""
    user, idle = round(seconds * busy * 100), round(seconds * (1 - busy) * 100)
    lines = [f"cpu {cpus * user} 0 0 {cpus * idle} 0 0 0 0 0 0"]
    lines += [f"cpu{n} {user} 0 0 {idle} 0 0 0 0 0 0" for n in range(cpus)]
    return "\n".join((*lines, "intr 1", "procs_running 1", ""))


def stalled(some_us: int, full_us: int | None = None) -> str:
    """Return a pressure file with these totals."""
    averages = "avg10=0.00 avg60=0.00 avg300=0.00"
    text = f"some {averages} total={some_us}\n"
    return text if full_us is None else f"{text}full {averages} total={full_us}\n"
