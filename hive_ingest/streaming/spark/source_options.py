"""Options of `format("hive_ingest")`: strings by name, as Spark passes them, checked before anything is done."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from hive_ingest.config import StreamingSettings, check_option, option
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import TableName
from hive_ingest.reader import DEFAULT_LOCK_WAIT_SECONDS, DEFAULT_SPLIT_BYTES

#: How long the rows of a task wait for the commit of their job before anybody takes them for forgotten.
DEFAULT_STAGED_RETENTION_SECONDS: Final = 7 * 86_400.0

#: Spark hands over its own options of a streaming query too.
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
_CHECKPOINT: Final = "checkpointlocation"
#: `metastore.<name>` is the option <name> of `connect_metastore`.
_METASTORE_PREFIX: Final = "metastore."

#: Fields that several options go into.
_GATHERED: Final = frozenset({"settings", "metastore_options", "checkpoint"})
_SETTINGS: Final = frozenset(each.name for each in dataclasses.fields(StreamingSettings))

_Options = TypeVar("_Options", bound="SourceOptions")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Where the table is. `metastore` and `warehouse` are valid in every process: paths are absolute."""

    metastore: str = field(repr=False)  # may hold a password
    table: TableName
    warehouse: str | None = None
    metastore_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def connect_metastore(self) -> MetastoreClient:
        """A client of the calling process."""
        options: dict[str, Any] = dict(self.metastore_options)
        if self.warehouse is not None:
            options["warehouse"] = self.warehouse
        return connect_metastore(self.metastore, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(SourceOptions):
    """Of `spark.read`. `split_bytes` are bytes of files for one task."""

    where: str | None = None
    row_ids: bool = option(False, "whether to add the column row__id")
    push_filters: bool = option(False, "whether to apply the filters of the query")
    split_bytes: int = option(DEFAULT_SPLIT_BYTES, "bytes of files that one task reads", at_least=1)
    lock_wait_seconds: float = option(DEFAULT_LOCK_WAIT_SECONDS, "how long to wait for the read lock", above=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(SourceOptions):
    """Of `df.write`."""

    missing_columns: Literal["fail", "null"] = option(
        "fail", "what to do about columns that the DataFrame lacks", choices=("fail", "null")
    )
    staged_retention_seconds: float = option(
        DEFAULT_STAGED_RETENTION_SECONDS, "how long staged rows are considered to be in use", above=0
    )
    maintenance: Literal["off", "request", "inline"] = option(
        "off", "what to do about compaction after the commit", choices=("off", "request", "inline")
    )
    settings: StreamingSettings = field(default_factory=StreamingSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions(WriteOptions):
    """Of `df.writeStream`. `sink` is None for at-least-once delivery, and `checkpoint` may be."""

    sink: str | None
    delivery: Literal["exactly-once", "at-least-once"] = option(
        "exactly-once", "what happens to a batch that Spark repeats", choices=("exactly-once", "at-least-once")
    )
    checkpoint: str | None = None


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Raises ConfigurationError: an option that is missing, unknown here, or invalid."""
    return _parse(ReadOptions, options, "reading")


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """As `read_options`; every option of StreamingSettings may be given by its name."""
    return _parse(WriteOptions, options, "writing")


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """As `write_options`. Without `sink` the progress is kept under the table's name."""
    parsed = _parse(StreamOptions, {"sink": "", **options}, "writing a stream")
    if parsed.maintenance == "inline":
        raise ConfigurationError(
            "maintenance='inline' would make each batch wait for compactions: Spark has no process in which the data "
            "source could go on between two batches. Use 'request' and run hive-ingest compactor, or use HiveSink"
        )
    checkpoint = {name.lower(): text for name, text in options.items()}.get(_CHECKPOINT)
    if parsed.delivery == "exactly-once":
        if checkpoint is None:
            raise ConfigurationError(
                "exactly once needs .option('checkpointLocation', …) on the stream itself: a setting of the session "
                "does not reach the data source, and without the checkpoint it cannot recognise a batch that Spark "
                "repeats. Give it, or choose delivery='at-least-once'"
            )
        return dataclasses.replace(parsed, sink=parsed.sink or parsed.table.table, checkpoint=checkpoint)
    if parsed.sink:
        raise ConfigurationError(
            f"sink={parsed.sink!r} keeps progress, and delivery='at-least-once' has none: leave out one"
        )
    return dataclasses.replace(parsed, sink=None)


def _parse(kind: type[_Options], options: Mapping[str, str], action: str) -> _Options:
    given = {name.lower(): text for name, text in options.items() if name.lower() not in _OF_SPARK}
    own = {each.name: each for each in dataclasses.fields(kind) if each.name not in _GATHERED}
    of_settings = _SETTINGS if issubclass(kind, WriteOptions) else frozenset()
    _refuse_unknown(given, {*own, *of_settings}, action)
    values: dict[str, Any] = {name: _value(own[name], text) for name, text in given.items() if name in own}
    if of_settings:
        values["settings"] = StreamingSettings.load({name: given[name] for name in given if name in of_settings})
    _require(values, action)
    return kind(**values, metastore_options=_metastore_options(given))


def _refuse_unknown(given: Mapping[str, str], known: set[str], action: str) -> None:
    unknown = [name for name in given if name not in known and not name.startswith(_METASTORE_PREFIX)]
    if unknown:
        raise ConfigurationError(
            f"format('hive_ingest') has no option {unknown[0]!r} for {action}: known are {', '.join(sorted(known))}, "
            f"and {_METASTORE_PREFIX}<name> for an option of the metastore (the table is named by option 'table', "
            "not by a path)"
        )


def _require(values: Mapping[str, Any], action: str) -> None:
    for name, example in (("metastore", "sqlite:////data/metastore.db"), ("table", "web.alerts")):
        if name not in values:
            raise ConfigurationError(f"{action} format('hive_ingest') needs .option({name!r}, {example!r})")
    _refuse_relative("metastore", re.fullmatch(r"sqlite:///([^/].*)", values["metastore"]))
    warehouse = values.get("warehouse")
    if warehouse is not None:
        _refuse_relative("warehouse", re.fullmatch(r"([^/:]+(?:/.*)?)", warehouse))
    elif not values["metastore"].startswith("thrift:"):
        raise ConfigurationError(f"{action} format('hive_ingest') needs .option('warehouse', '/data/warehouse')")


def _refuse_relative(name: str, path: re.Match[str] | None) -> None:
    if path is not None:
        raise ConfigurationError(
            f"{name} names the relative path {path[1]!r}, which differs between Spark's processes: "
            "write an absolute one"
        )


# -- values ----------------------------------------------------------------------------------------


def _value(field: dataclasses.Field[Any], text: str) -> Any:
    if field.name == "table":
        return TableName.of(text)
    return check_option(field, text, "the options") if "kind" in field.metadata else text


def _metastore_options(given: Mapping[str, str]) -> dict[str, Any]:
    """Numbers and booleans by their types: Spark passes only strings."""
    return {
        name.removeprefix(_METASTORE_PREFIX): _guessed(text)
        for name, text in given.items()
        if name.startswith(_METASTORE_PREFIX)
    }


def _guessed(text: str) -> Any:
    if text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
