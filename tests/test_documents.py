"""The pages are true of the code."""

import re
from pathlib import Path

import pytest

from trimtab.agent.settings import Settings as AgentSettings
from trimtab.collector.health import CURVES
from trimtab.collector.settings import Settings as CollectorSettings

ROOT = Path(__file__).parents[1]
FOLDERS = ("", "docs", "docs/adr", "systemd", "packaging")
PAGES = sorted(path for name in FOLDERS for path in (ROOT / name).glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("## Agent", set(AgentSettings._fields)),
        ("## Collector", set(CollectorSettings.model_fields)),
    ],
)
def test_every_setting_is_on_its_page_and_no_other(heading, keys):
    text = (ROOT / "docs" / "settings.md").read_text()
    part = text.split(heading, 1)[1].split("\n## ", 1)[0]
    told = set()
    for line in part.splitlines():
        if line.startswith("| `"):
            told |= set(re.findall(r"`(\w+)`", line.split("|")[1]))
    assert told == keys


def test_the_health_page_has_every_curve_with_its_numbers():
    rows = {}
    for line in (ROOT / "docs" / "health.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[1].startswith("`"):
            numbers = tuple(float(cell.replace(",", "")) for cell in cells[3:6])
            rows[cells[0], cells[1].strip("`")] = numbers
    assert rows == {
        (dimension, curve.signal): (curve.begins, curve.half, curve.ends)
        for dimension, curves in CURVES.items()
        for curve in curves
    }
