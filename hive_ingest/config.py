"""The options of streaming: name, default, unit, and Hive's key where there is one.

A value comes from the first of: the argument, the environment (`HIVE_INGEST_<NAME>`), the TOML file that
`HIVE_INGEST_CONFIG` names, `hive-site.xml` in `HIVE_CONF_DIR`, the default.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import os
import re
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from hive_ingest.errors import ConfigurationError

MIB = 1 << 20
#: How long a transaction waits for its lock by default.
DEFAULT_LOCK_WAIT_SECONDS = 180.0
#: An owner that died holds its sources until its transaction times out, and housekeeping runs a little after that.
_TIMEOUTS_TO_WAIT_FOR_A_SINK = 1.5

T = TypeVar("T")


def option(
    default: Any,
    about: str,
    *,
    kind: type | None = None,
    at_least: float | None = None,
    above: float | None = None,
    choices: Sequence[str] = (),
    hive_key: str | Sequence[str] | None = None,
    secret: bool = False,
) -> Any:
    """A field of a class of options, which `check_options` checks.

    Args:
        default: Its type is that of the option: bool, int, float or str. None: derived where the option is used.
        about: What it limits or chooses, for the message about a wrong value.
        kind: The type of an option whose default is None.
        at_least: The lowest number.
        above: A number that the value must exceed.
        choices: The values that are possible, if they are limited.
        hive_key: The key, or keys, in `hive-site.xml`.
        secret: Whether the value must not appear in `repr` and messages.
    """
    keys = (hive_key,) if isinstance(hive_key, str) else tuple(hive_key or ())
    about_it = {
        "kind": kind or type(default),
        "about": about,
        "at_least": at_least,
        "above": above,
        "choices": tuple(choices),
        "hive_keys": keys,
    }
    return dataclasses.field(default=default, repr=not secret, metadata={**about_it, "secret": secret})


@dataclass(frozen=True, slots=True)
class StreamingSettings:
    """Settings of a streaming connection. The name of each includes its unit."""

    max_buffer_bytes: int = option(
        256 * MIB, "memory for records and rows of one transaction before they are spilled", at_least=MIB
    )
    min_spill_bytes: int = option(
        1 * MIB, "groups of at least this size are spilled as ORC, smaller ones together", at_least=1
    )
    spill_chunk_bytes: int = option(
        8 * MIB, "rows of one group that are encoded at once, while more records come in", at_least=1
    )
    stripe_size_bytes: int = option(
        64 * MIB, "uncompressed size of an ORC stripe", at_least=64 << 10, hive_key="hive.exec.orc.default.stripe.size"
    )
    writer_threads: int = option(min(4, os.cpu_count() or 1), "threads that parse and encode", at_least=1)
    max_partitions_per_transaction: int = option(
        10_000, "partitions that one transaction may write", at_least=1, hive_key="hive.exec.max.dynamic.partitions"
    )
    lock_wait_seconds: float = option(
        None,
        "how long a transaction waits for its lock. None: 180, and with a sink at least 1.5 times the timeout of "
        "transactions, so that it outlasts an owner that died",
        kind=float,
        at_least=0,
    )
    begin_retries: int = option(
        20, "how often a transaction that was overtaken, or aborted before it began, is begun again", at_least=1
    )
    max_idle_seconds: float = option(
        60.0, "time after which unused transactions that were opened ahead are aborted", at_least=0
    )
    commit_retry_seconds: float = option(60.0, "how long a commit whose response was lost is retried", at_least=0)
    fsync: bool = option(True, "whether files and folders are synced before their transaction commits")
    shared_write: bool = option(False, "lock the data table SHARED_WRITE instead of SHARED_READ")

    def __post_init__(self) -> None:
        check_options(self)

    def with_lock_wait(self, txn_timeout_seconds: float, *, has_sink: bool) -> Self:
        """A copy with `lock_wait_seconds` as a number; an owner that died holds its sources until the timeout."""
        if cast("float | None", self.lock_wait_seconds) is not None:
            return self
        for_owner = _TIMEOUTS_TO_WAIT_FOR_A_SINK * txn_timeout_seconds if has_sink else 0.0
        return dataclasses.replace(self, lock_wait_seconds=max(DEFAULT_LOCK_WAIT_SECONDS, for_owner))

    @classmethod
    def load(cls, arguments: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None) -> Self:
        """Settings from all sources. Raises ConfigurationError for an unknown name or an invalid value."""
        environ = os.environ if environ is None else environ
        return options_from(cls, *cls._sources(environ), ("the arguments", arguments or {}))

    @classmethod
    def explain(cls, *, environ: Mapping[str, str] | None = None) -> dict[str, tuple[Any, str]]:
        """The value of each setting and its source, "default" for one that is not set. Raises as `load`."""
        environ = os.environ if environ is None else environ
        return explained(cls.load(environ=environ), cls._sources(environ))

    @classmethod
    def _sources(cls, environ: Mapping[str, str]) -> list[tuple[str, Mapping[str, Any]]]:
        """A later one wins."""
        return [
            ("hive-site.xml", from_hive_site(cls, environ)),
            ("the TOML file", _from_toml(environ)),
            ("the environment", from_environment(cls, "HIVE_INGEST_", environ)),
        ]


# -- options in general: checked the same way, wherever they come from ---------------------------------


def options_from(kind: type[T], *sources: tuple[str, Mapping[str, Any]]) -> T:
    """Options of a class, from several named sources; a later one wins.

    Raises:
        ConfigurationError: An unknown name or an invalid value; the message names the source.
    """
    known = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for source, found in sources:
        unknown = sorted(set(found) - set(known))
        if unknown:
            raise ConfigurationError(f"unknown option {unknown[0]!r} in {source}: known are {', '.join(known)}")
        values |= {name: check_option(known[name], value, source) for name, value in found.items()}
    return kind(**values)


def explained(options: Any, sources: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, tuple[Any, str]]:
    """The value of each option and its source, "default" for one that is not set; a secret is masked.

    Args:
        options: As `options_from` has made them.
        sources: Those that it was given.
    """
    places = {name: source for source, found in sources for name in found}
    values = {
        field.name: "***" if field.metadata["secret"] and getattr(options, field.name) else getattr(options, field.name)
        for field in dataclasses.fields(options)
    }
    return {name: (value, places.get(name, "default")) for name, value in values.items()}


def check_options(options: Any) -> None:
    """For `__post_init__`: each value is of its type and in its range. Raises ConfigurationError."""
    for field in dataclasses.fields(options):
        object.__setattr__(options, field.name, check_option(field, getattr(options, field.name), "the arguments"))


def check_option(field: dataclasses.Field[Any], value: Any, source: str) -> Any:
    """A value, also as text, in the type and range of a field that `option` has made. Raises ConfigurationError."""
    about = field.metadata
    kind = about["kind"]
    if value is None and field.default is None:
        return None
    try:
        made = _CONVERTERS[kind](value)
    except (ValueError, KeyError, TypeError) as error:
        raise _invalid(field, value, source) from error
    too_low = about["at_least"] is not None and made < about["at_least"]
    if too_low or (about["above"] is not None and made <= about["above"]):
        raise _invalid(field, value, source)
    if about["choices"] and made not in about["choices"]:
        raise _invalid(field, value, source)
    return made


def _invalid(field: dataclasses.Field[Any], value: Any, source: str) -> ConfigurationError:
    about = field.metadata
    shown = "***" if about["secret"] else repr(value)
    wanted = f"one of {', '.join(about['choices'])}" if about["choices"] else _WANTED[about["kind"]]
    if about["at_least"] is not None:
        wanted += f", {about['at_least']:g} or more"
    if about["above"] is not None:
        wanted += f" above {about['above']:g}"
    return ConfigurationError(f"{field.name}={shown} from {source}: give {wanted} ({about['about']})")


def _to_bool(value: Any) -> bool:
    return value if isinstance(value, bool) else {"true": True, "false": False}[str(value).strip().lower()]


def _to_int(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError(value)
    return int(value) if isinstance(value, str) else operator.index(value)


def _to_float(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError(value)
    return number


def _to_str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


_CONVERTERS: Mapping[type, Callable[[Any], Any]] = {bool: _to_bool, int: _to_int, float: _to_float, str: _to_str}
_WANTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def from_environment(kind: type, prefix: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Those options of a class that the environment sets, by name."""
    names = {f"{prefix}{field.name.upper()}": field.name for field in dataclasses.fields(kind)}
    return {names[key]: value for key, value in environ.items() if key in names}


def from_hive_site(kind: type, environ: Mapping[str, str]) -> dict[str, str]:
    """Those options of a class that `hive-site.xml` sets, by name; of several keys the first wins."""
    properties = hive_site_properties(environ)
    found: dict[str, str] = {}
    for field in dataclasses.fields(kind):
        values = [properties[key] for key in field.metadata["hive_keys"] if key in properties]
        if values:
            found[field.name] = values[0]
    return found


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


#: Hive's `TimeValidator` and `HiveConf.unitFor`; most also in the plural.
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
        raise ConfigurationError(f"{text!r} is not a duration: write it as Hive does, for example 300s")
    return int(found[1]) * _SECONDS_OF_UNIT[unit]
