"""The collector's settings: collector.toml, then TRIMTAB_… over it.

Every problem of a configuration is reported at once, each with its key, the
value that arrived and what is allowed.
"""

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from .address import Address, parse_address


def _address(value: object) -> Address:
    try:
        return value if isinstance(value, Address) else parse_address(value)
    except TypeError as exc:
        raise ValueError(str(exc)) from exc


# In the environment it is text, not JSON.
Listen = Annotated[Address, NoDecode, BeforeValidator(_address)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class BadSettings(ValueError):
    """A configuration that can't be used; `problems` has a line for each."""

    def __init__(self, source: str, problems: list[str]) -> None:
        super().__init__("\n".join(f"{source}: {line}" for line in problems))
        self.problems = problems


class Settings(BaseSettings):
    """What an operator may set. Durations are seconds."""

    model_config = SettingsConfigDict(
        env_prefix="TRIMTAB_", extra="forbid", frozen=True, validate_default=True
    )

    frames_listen: Listen = Address("127.0.0.1", 7766)
    http_listen: Listen = Address("127.0.0.1", 7767)
    insecure: bool = Field(
        default=False, description="serve beyond loopback without any credential"
    )
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = Field(
        default=None,
        description="authorities whose certificates clients must have; unset: none",
    )
    state_dir: Path = Path("/var/lib/trimtab")

    lost_after_s: Seconds = Field(
        default=30, description="silence after which a stale node counts as lost"
    )
    forget_ephemeral_s: Seconds = Field(
        default=300,
        description="time lost after which ephemeral nodes and clones are forgotten",
    )
    interval_s: Annotated[float, Field(ge=0.01, le=3600)] | None = Field(
        default=None, description="cadence that agents are asked for; unset: their own"
    )
    peers: tuple[str, ...] = Field(
        default=(), max_length=64, description="addresses that every agent pings"
    )

    tick_s: Annotated[float, Field(ge=0.02, le=5)] = Field(
        default=0.2, description="how often scores, states and the snapshot are renewed"
    )
    commit_s: Annotated[float, Field(ge=0.1, le=5)] = Field(
        default=1.0, description="how often samples are stored and acknowledged"
    )
    keep_minutes_h: Annotated[int, Field(ge=1, le=24 * 366)] = Field(
        default=72, description="hours for which minute rollups are kept"
    )
    keep_hours_d: Annotated[int, Field(ge=1, le=3660)] = Field(
        default=400, description="days for which hour rollups are kept"
    )
    max_store_mib: Annotated[int, Field(ge=16, le=1_048_576)] = Field(
        default=2048,
        description="size of the database past which the oldest minutes go first",
    )
    max_nodes: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    max_connections: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=20_000, description="agents connected at once"
    )
    max_http_connections: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1_000, description="HTTP connections open at once"
    )

    log_format: Literal["logfmt", "json"] = "logfmt"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _tls_is_whole(self) -> "Settings":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together: set both or neither")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("tls_client_ca needs tls_cert and tls_key")
        return self

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.state_dir / "collector.db"

    @property
    def beyond_loopback(self) -> list[Address]:
        """The listeners that other hosts can reach."""
        both = (self.frames_listen, self.http_listen)
        return [address for address in both if not address.loopback]

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment over file; no .env, no secret directory."""
        del settings_cls, dotenv_settings, file_secret_settings
        return (env_settings, init_settings)


def load(path: Path | None) -> Settings:
    """Return the settings of a file and the environment; BadSettings if wrong."""
    source = str(path) if path else "settings"
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text())
        except OSError as exc:
            raise BadSettings(source, [f"can't be read: {exc.strerror}"]) from exc
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
            raise BadSettings(source, [f"is not TOML: {exc}"]) from exc
    try:
        return Settings(**values)
    except ValidationError as exc:
        raise BadSettings(source, [_line(dict(e)) for e in exc.errors()]) from exc
    except SettingsError as exc:
        # A list in the environment that is not JSON; the text names the field.
        raise BadSettings("environment", [f"{exc}: expected JSON"]) from exc


def _line(error: dict[str, Any]) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, Settings.model_fields, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"{key}: no such setting{hint}"
    message = str(error["msg"]).removeprefix("Value error, ")
    if not key:
        return message
    return f"{key} = {error['input']!r}: {message}"
