"""The TOML file of `hive-ingest kafka`: keys have the names of the arguments of `KafkaIngest` and `KafkaRoute`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hive_ingest.cli.kafka_options import is_plain_secret
from hive_ingest.cli.record_options import MessageFormat, message_options, new_message_writer
from hive_ingest.cli.toml_file import TomlSection, read_toml

if TYPE_CHECKING:
    from hive_ingest.cli.kafka_routes import ConfiguredRoute
    from hive_ingest.record_writer import RecordWriter

#: Keys of the file besides the fields of `KafkaOptions`.
_INGEST_KEYS = (
    "bootstrap_servers",
    "group_id",
    "kafka_options",
    "maintenance",
    "metastore",
    "routes",
    "settings",
    "warehouse",
)

T = TypeVar("T")


def read_config(path: Path) -> dict[str, Any]:
    """The arguments of `KafkaIngest`, and `warehouse`.

    Raises:
        ConfigurationError: The message names the line and the key.
    """
    from hive_ingest.streaming.kafka.options import KafkaOptions

    root = read_toml(path)
    options = [field.name for field in dataclasses.fields(KafkaOptions)]
    root.check_keys((*_INGEST_KEYS, *options))
    found = {key: value for key, value in root.values.items() if key not in ("routes", "kafka_options", "settings")}
    for name in options:
        if name in root.values:
            _checked(root, name, lambda name=name: KafkaOptions(**{name: root.values[name]}))  # type: ignore[misc]
    if "metastore" in found:
        found["metastore"] = _secret(root, "metastore")
    found["settings"] = _settings(root)
    found["kafka_options"] = _kafka_options(root)
    found["routes"] = [_route(section) for section in root.sections("routes")]
    if not found["routes"]:
        raise root.error("routes", "there is no [[routes]]: name at least one topic and its table")
    return found


def _settings(root: TomlSection) -> dict[str, Any]:
    from hive_ingest.config import StreamingSettings

    section = root.section("settings")
    section.check_keys(field.name for field in dataclasses.fields(StreamingSettings))
    for name, value in section.values.items():
        _checked(section, name, lambda name=name, value=value: StreamingSettings(**{name: value}))  # type: ignore[misc]
    return section.values


def _kafka_options(root: TomlSection) -> dict[str, Any]:
    from hive_ingest.streaming.kafka.client_options import KafkaClientOptions, option_defaults

    section = root.section("kafka_options")
    section.check_keys(option_defaults())
    for name, value in section.values.items():
        if is_plain_secret(name, value):
            raise section.error(
                name, f"{name} is a secret: write env:NAME or file:/path, so that the file contains none"
            )
    _checked(root, "kafka_options", lambda: KafkaClientOptions(section.values))
    return section.values


def _route(section: TomlSection) -> ConfiguredRoute:
    from hive_ingest.cli.kafka_routes import ConfiguredRoute
    from hive_ingest.streaming.kafka import KafkaRoute

    section.check_keys((*(field.name for field in dataclasses.fields(KafkaRoute)), "dead_letter_topic"))
    if {"bad_records", "dead_letter_topic"} <= section.values.keys():
        raise section.error("dead_letter_topic", "give one of bad_records and dead_letter_topic")
    for key in ("topic", "table"):
        section.required(key)
    arguments = section.values | {"record_writer": _record_writer(section.section("record_writer"))}
    if "columns" in section.values:
        arguments["columns"] = _columns(section.section("columns"))
    targets = {key: arguments.pop(key) for key in ("bad_records", "dead_letter_topic") if key in arguments}
    for key, value in targets.items():
        if not isinstance(value, str):
            raise section.error(key, f"{key}={value!r}: give a name")
    return ConfiguredRoute(_checked(section, "topic", lambda: KafkaRoute(**arguments)), **targets)


def _columns(section: TomlSection) -> Any:
    from hive_ingest.streaming.kafka.messages import MessageColumns

    section.check_keys(field.name for field in dataclasses.fields(MessageColumns))
    return _checked(section, "", lambda: MessageColumns(**section.values))


def _record_writer(section: TomlSection) -> RecordWriter:
    options = dict(section.values)
    format = options.pop("format", MessageFormat.JSON.value)
    if format not in list(MessageFormat):
        raise section.error("format", f"format={format!r}: give one of {', '.join(MessageFormat)}")
    section.check_keys(("format", *message_options(format)))
    if format == MessageFormat.AVRO:
        _check_registry(section)
    return _checked(section, "format", lambda: new_message_writer(format, options))


def _check_registry(section: TomlSection) -> None:
    from hive_ingest.streaming.kafka import SchemaRegistry
    from hive_ingest.streaming.kafka.secrets import is_reference

    if isinstance(section.required("schema_registry"), str):
        return
    registry = section.section("schema_registry")
    registry.check_keys(name for name in inspect.signature(SchemaRegistry).parameters if name != "clock")
    registry.required("url")
    for name in {"password", "token"} & registry.values.keys():
        if not is_reference(str(registry.values[name])):
            raise registry.error(name, f"{name} is a secret: write env:NAME or file:/path, so that the file holds none")


def _secret(section: TomlSection, key: str) -> str:
    from hive_ingest.streaming.kafka.secrets import read_secret

    return _checked(section, key, lambda: read_secret(key, section.values[key]))


def _checked(section: TomlSection, key: str, make: Callable[[], T]) -> T:
    """The result of `make`; a ConfigurationError is raised again with the line and the key."""
    from hive_ingest.errors import ConfigurationError

    try:
        return make()
    except (ConfigurationError, TypeError) as error:
        raise section.error(key, str(error)) from error
