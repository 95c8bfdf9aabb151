"""Data flows one way: who may import whom, read from the code itself."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("agent", "balancer", "client", "collector", "console", "wire")

# DESIGN: imports of ours, beside the package itself.
MAY_IMPORT = {
    "wire": set(),
    "agent": {"wire"},
    "collector": {"wire", "balancer"},
    "balancer": set(),
    "client": {"balancer"},
    "console": {"client"},
}
# What each may use of others' packages at module level or anywhere else.
THIRD_PARTY = {
    "wire": {"msgpack"},
    "agent": {"msgpack", "psutil", "pynvml"},
    "collector": {
        "aiohttp",
        "numpy",
        "prometheus_client",
        "pydantic",
        "pydantic_settings",
        "structlog",
        "uvloop",
    },
    "balancer": set(),
    "client": {"urllib3"},
    "console": {"rich"},
}
# A decision is a function of its arguments: no I/O, no clock.
BALANCER_NEVER = {
    "asyncio",
    "datetime",
    "os",
    "pathlib",
    "socket",
    "subprocess",
    "time",
}


def imports(package):
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            else:
                continue
            for name in names:
                yield path.relative_to(ROOT), name


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_imports_only_what_the_design_allows(package):
    for path, name in imports(package):
        top, *rest = name.split(".")
        if top == "trimtab":
            assert rest, f"{path}: import a package of trimtab, not trimtab"
            allowed = MAY_IMPORT[package] | {package}
            assert rest[0] in allowed, f"{path} imports {name}"
        elif top not in sys.stdlib_module_names:
            assert top in THIRD_PARTY[package], f"{path} imports {name}"
        assert top not in PACKAGES, f"{path}: a bare {name} is somebody else's"


def test_the_balancer_has_no_io_no_clock_and_no_chance_of_its_own():
    for path, name in imports("balancer"):
        assert name.split(".")[0] not in BALANCER_NEVER, f"{path} imports {name}"
    for path in (ROOT / "balancer").rglob("*.py"):
        assert not re.search(r"\brandom\.(random|choice|randint)\(", path.read_text())


@pytest.mark.parametrize("package", PACKAGES)
def test_relative_imports_stay_within_their_package(package):
    for path in (ROOT / package).rglob("*.py"):
        depth = len(path.relative_to(ROOT).parts) - 1
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.level <= depth, f"{path} leaves its package"


def test_the_agents_loop_loads_neither_psutil_nor_what_it_does_not_use():
    code = (
        "import sys; import trimtab.agent.service, trimtab.agent.cli;"
        "print(*sorted(m for m in sys.modules if '.' not in m))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"asyncio", "psutil", "pynvml", "numpy", "aiohttp"} & set(loaded)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_says_what_it_is(package):
    for path in (ROOT / package).rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), (
            f"{path} has no docstring"
        )


def test_every_package_is_linked_for_development():
    for package in PACKAGES:
        link = ROOT / "links" / "trimtab" / package
        assert link.is_symlink()
        assert not link.readlink().is_absolute()
        assert link.resolve() == ROOT / package
