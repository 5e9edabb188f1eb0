"""Every option of streaming: name, default, unit, Hive's key where it has one.

A value comes from the first of: the argument, the environment (`HIVE_INGEST_<NAME>`), the TOML file that
`HIVE_INGEST_CONFIG` names, `hive-site.xml` in `HIVE_CONF_DIR`, the default.
"""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

from hive_ingest.errors import ConfigurationError

MIB = 1 << 20


#: How long a transaction waits for its lock, unless the user says.
DEFAULT_LOCK_WAIT_SECONDS = 180.0
#: An owner that died unseen holds its sources until its transaction times out, and housekeeping comes a little later.
_TIMEOUTS_TO_WAIT_FOR_A_SINK = 1.5


def _option(
    default: Any, about: str, *, kind: type | None = None, at_least: float = 0, hive_key: str | None = None
) -> Any:
    """`kind` is the type of an option whose default is None, to be derived where it is used."""
    metadata = {"about": about, "kind": kind or type(default), "at_least": at_least, "hive_key": hive_key}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class StreamingSettings:
    """Limits and habits of a streaming connection. Each has its unit in its name."""

    max_buffer_bytes: int = _option(
        256 * MIB, "memory for records and rows of one transaction before they are spilled", at_least=MIB
    )
    min_spill_bytes: int = _option(
        1 * MIB, "groups of at least this size are spilled as ORC, smaller ones together", at_least=1
    )
    spill_chunk_bytes: int = _option(
        8 * MIB, "rows of one group that are encoded at once, while more records come in", at_least=1
    )
    stripe_size_bytes: int = _option(
        64 * MIB, "uncompressed size of an ORC stripe", at_least=64 << 10, hive_key="hive.exec.orc.default.stripe.size"
    )
    writer_threads: int = _option(min(4, os.cpu_count() or 1), "threads that parse and encode", at_least=1)
    max_partitions_per_transaction: int = _option(
        10_000, "partitions that one transaction may write", at_least=1, hive_key="hive.exec.max.dynamic.partitions"
    )
    lock_wait_seconds: float = _option(
        None,
        "how long a transaction waits for its lock. None: 180, and with a sink at least 1.5 times the time-out of "
        "transactions, so that it outlasts an owner that died",
        kind=float,
    )
    begin_retries: int = _option(
        20, "how often a transaction that was overtaken, or aborted before it began, is begun again", at_least=1
    )
    max_idle_seconds: float = _option(60.0, "after which transactions fetched ahead are given back")
    commit_retry_seconds: float = _option(60.0, "how long the answer to a commit is asked for again")
    fsync: bool = _option(True, "whether files are on the device before their transaction commits")
    shared_write: bool = _option(False, "lock the data table SHARED_WRITE instead of SHARED_READ")

    def __post_init__(self) -> None:
        for option in dataclasses.fields(self):
            object.__setattr__(self, option.name, _coerce(option, getattr(self, option.name), "the argument"))

    def with_lock_wait(self, txn_timeout_seconds: float, *, has_sink: bool) -> Self:
        """The same with `lock_wait_seconds` as a number; an owner that died holds its sources until the time-out."""
        if cast("float | None", self.lock_wait_seconds) is not None:
            return self
        for_owner = _TIMEOUTS_TO_WAIT_FOR_A_SINK * txn_timeout_seconds if has_sink else 0.0
        return dataclasses.replace(self, lock_wait_seconds=max(DEFAULT_LOCK_WAIT_SECONDS, for_owner))

    @classmethod
    def load(cls, arguments: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None) -> Self:
        """Settings from all sources. Raises ConfigurationError for an unknown name or an impossible value."""
        environ = os.environ if environ is None else environ
        options = {option.name: option for option in dataclasses.fields(cls)}
        values: dict[str, Any] = dict(_from_hive_site(options, environ))
        for source, found in (
            ("the TOML file", _from_toml(environ)),
            ("the environment", _from_environment(options, environ)),
            ("the arguments", dict(arguments or {})),
        ):
            unknown = sorted(set(found) - set(options))
            if unknown:
                raise ConfigurationError(f"{source} name unknown options {unknown}: known are {sorted(options)}")
            values |= {name: _coerce(options[name], value, source) for name, value in found.items()}
        return cls(**values)


def _coerce(option: dataclasses.Field[Any], value: Any, source: str) -> Any:
    kind: Any = option.metadata["kind"]
    if value is None and option.default is None:
        return None
    try:
        if kind is bool:
            made: Any = value if isinstance(value, bool) else {"true": True, "false": False}[str(value).strip().lower()]
        else:
            made = kind(value)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{option.name}={value!r} from {source} is no {kind.__name__} ({option.metadata['about']})"
        ) from error
    if kind is not bool and made < option.metadata["at_least"]:
        raise ConfigurationError(f"{option.name}={made} from {source} is below {option.metadata['at_least']}")
    return made


def _from_environment(options: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    names = {f"HIVE_INGEST_{name.upper()}": name for name in options}
    return {names[key]: value for key, value in environ.items() if key in names}


def _from_toml(environ: Mapping[str, str]) -> dict[str, Any]:
    path = environ.get("HIVE_INGEST_CONFIG")
    if not path:
        return {}
    try:
        found = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"HIVE_INGEST_CONFIG names {path!r}, which cannot be read: {error}") from error
    section = found.get("streaming", {})
    if not isinstance(section, dict):
        raise ConfigurationError(f"{path!r}: write the options below a line [streaming]")
    return section


def _from_hive_site(options: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    by_key = hive_site_properties(environ)
    wanted = {name: option.metadata["hive_key"] for name, option in options.items() if option.metadata["hive_key"]}
    return {name: _coerce(options[name], by_key[key], "hive-site.xml") for name, key in wanted.items() if key in by_key}


def hive_site_properties(environ: Mapping[str, str]) -> dict[str, str]:
    """What `hive-site.xml` in `HIVE_CONF_DIR` says; nothing where there is none. Raises ConfigurationError."""
    folder = environ.get("HIVE_CONF_DIR")
    path = Path(folder or ".") / "hive-site.xml"
    if not folder or not path.is_file():
        return {}
    try:
        root = ET.fromstring(path.read_text("utf-8"))
    except (OSError, ET.ParseError) as error:
        raise ConfigurationError(f"{str(path)!r} cannot be read: {error}") from error
    return {
        (entry.findtext("name") or "").strip(): (entry.findtext("value") or "").strip()
        for entry in root.iter("property")
    }


#: Hive's `TimeValidator` and `HiveConf.unitFor`; most also with "s" behind.
_SECONDS_OF_UNIT = {
    **dict.fromkeys(("d", "day"), 86400.0),
    **dict.fromkeys(("h", "hour"), 3600.0),
    **dict.fromkeys(("m", "min", "minute"), 60.0),
    **dict.fromkeys(("", "s", "sec", "second"), 1.0),
    **dict.fromkeys(("ms", "msec", "millisecond"), 1e-3),
    **dict.fromkeys(("us", "usec", "microsecond"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond"), 1e-9),
}
_TIME = re.compile(r"(\d+)\s*([a-z]*)")


def parse_seconds(text: str) -> float:
    """One of Hive's times: "300s", "5 min", "1day"; seconds without a unit. Raises ConfigurationError."""
    found = _TIME.fullmatch(text.strip().lower())
    unit = found[2] if found and found[2] in _SECONDS_OF_UNIT else (found[2].removesuffix("s") if found else None)
    if found is None or unit not in _SECONDS_OF_UNIT:
        raise ConfigurationError(f"{text!r} is no time: write it as Hive does, as in 300s")
    return int(found[1]) * _SECONDS_OF_UNIT[unit]
