"""The configs that the packages ship: every setting, commented out, and true."""

import re
import tomllib
from pathlib import Path

import pytest

from trimtab.agent.settings import Settings as AgentSettings
from trimtab.agent.settings import load as load_agent
from trimtab.collector.settings import Settings as CollectorSettings

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "packaging" / "deb"
CONFIGS = {
    "Agent": SHIPPED / "trimtab-agent/agent.toml",
    "Collector": SHIPPED / "trimtab-collector/collector.toml",
}


def spoken(path):
    """Return the config's defaults and its examples, as if they were not comments."""
    defaults, examples = path.read_text().split("# Unset:\n")
    return tuple(
        tomllib.loads("\n".join(re.findall(r"^#(\w+ = .*)$", text, re.MULTILINE)))
        for text in (defaults, examples)
    )


def settings_of(service, values):
    """Return the service's own idea of these values."""
    if service == "Agent":
        return load_agent(None, {}, values)._asdict()
    return CollectorSettings(**values).model_dump()


@pytest.mark.parametrize(("service", "path"), CONFIGS.items())
def test_a_shipped_config_sets_nothing(service, path):
    assert tomllib.loads(path.read_text()) == {}


@pytest.mark.parametrize(("service", "path"), CONFIGS.items())
def test_a_shipped_config_names_the_keys_of_the_settings_page(service, path):
    defaults, examples = spoken(path)
    page = (ROOT / "docs" / "settings.md").read_text()
    part = page.split(f"## {service}", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)
    keys = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert not set(defaults) & set(examples)
    assert set(defaults) | set(examples) == keys


@pytest.mark.parametrize(("service", "path"), CONFIGS.items())
def test_the_values_of_a_shipped_config_are_the_defaults(service, path):
    defaults, _ = spoken(path)
    wanted = settings_of(service, {})
    assert settings_of(service, defaults) == wanted


@pytest.mark.parametrize(("service", "path"), CONFIGS.items())
def test_the_examples_of_a_shipped_config_are_accepted_and_no_default(service, path):
    _, examples = spoken(path)
    accepted = settings_of(service, examples)
    of_itself = (
        AgentSettings()._asdict()
        if service == "Agent"
        else CollectorSettings().model_dump()
    )
    for key in examples:
        assert accepted[key] != of_itself[key], key
