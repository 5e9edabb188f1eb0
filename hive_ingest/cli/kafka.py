"""`hive-ingest kafka`."""

from __future__ import annotations

import dataclasses
import enum
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_ingest.cli.ingest import RECORDS_SKIPPED, MaintenanceMode
from hive_ingest.cli.kafka_options import KafkaOptionOption, kafka_options_of
from hive_ingest.cli.kafka_routes import ConfiguredRoute, opened
from hive_ingest.cli.live_line import live_line
from hive_ingest.cli.logs import confirm, say
from hive_ingest.cli.metrics_server import MaxCommitAgeOption, MetricsHostOption, MetricsPortOption, served_metrics
from hive_ingest.cli.options import WarehouseOption, connected, pairs
from hive_ingest.cli.record_options import (
    BadRecordsOption,
    CaseInsensitiveOption,
    Coerce,
    CoerceOption,
    CollectionDelimiterOption,
    ColumnsOption,
    DateFormatsOption,
    DecimalPoint,
    DecimalPointOption,
    EmptyPartitionValues,
    EmptyPartitionValuesOption,
    EscapeOption,
    FieldDelimiterOption,
    MapKeyDelimiterOption,
    MaxBadRecordShareOption,
    MaxBadRecordsOption,
    MaxRecordBytesOption,
    MessageFormat,
    MissingFields,
    MissingFieldsOption,
    MissingPartitionKeysOption,
    NullFormatOption,
    NullValuesOption,
    OnError,
    OnErrorOption,
    QuoteOption,
    RegexOption,
    TimestampFormatsOption,
    TimezoneOption,
    UnknownFields,
    UnknownFieldsOption,
    refuse_options_of_other_formats,
    writer_from_options,
    writer_options,
)
from hive_ingest.plurals import counted

if TYPE_CHECKING:
    from hive_ingest.streaming.kafka import KafkaIngest, KafkaIngestStats

_METRICS_OPTIONS = ("metrics_port", "metrics_host", "max_commit_age_seconds")
#: Options of one route: in a file, each route has its own.
_ROUTE_OPTIONS = (
    *("topic", "table", "sink", "format", "message_columns", "tombstones"),
    *("bad_records", "dead_letter_topic", "max_bad_records", "max_bad_record_share"),
)


class OnOffsetLoss(enum.StrEnum):
    """What happens when a topic does not continue where the table's position is."""

    FAIL = "fail"
    EARLIEST = "earliest"
    LATEST = "latest"


class KafkaClient(enum.StrEnum):
    """The packages that can read from Kafka."""

    KAFKA_PYTHON = "kafka-python"
    CONFLUENT_KAFKA = "confluent-kafka"


class Tombstones(enum.StrEnum):
    """How messages without a value are handled."""

    FAIL = "fail"
    SKIP = "skip"
    RECORD = "record"


class AutoOffsetReset(enum.StrEnum):
    """Where a topic begins for a table without a position in it."""

    EARLIEST = "earliest"
    LATEST = "latest"


class IsolationLevel(enum.StrEnum):
    """Whether messages of transactions that are not committed are read."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


def kafka(
    context: typer.Context,
    metastore: Annotated[
        str | None,
        typer.Option(
            "--metastore",
            metavar="URI",
            envvar="HIVE_INGEST_METASTORE",
            show_default=False,
            help="URI of the metastore, such as thrift://metastore:9083.",
        ),
    ] = None,
    warehouse: WarehouseOption = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", show_default=False, help="TOML file with these options and several routes."
        ),
    ] = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers", metavar="HOST:PORT,…", show_default=False, help="Brokers to connect to first."
        ),
    ] = None,
    group_id: Annotated[
        str | None,
        typer.Option(
            "--group-id",
            metavar="NAME",
            show_default=False,
            help="Consumer group. Instances with the same one share the partitions.",
        ),
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="NAME", show_default=False, help="The topic.")] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="DB.TABLE", show_default=False, help="Its table.")
    ] = None,
    sink: Annotated[
        str | None,
        typer.Option("--sink", metavar="NAME", help="Name under which positions are kept. Default: the table's name."),
    ] = None,
    format: Annotated[MessageFormat, typer.Option("--format", help="Format of the messages.")] = MessageFormat.JSON,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry", metavar="URL", help="Avro: the registry. One that requires a password needs --config."
        ),
    ] = None,
    message_columns: Annotated[
        list[str] | None,
        typer.Option(
            "--message-column",
            metavar="PART=COLUMN",
            help="A column for the topic, partition, offset, timestamp, timestamp_type, key or headers; repeat it.",
        ),
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Exit when all messages that the topics have now are committed.")
    ] = False,
    client: Annotated[
        KafkaClient, typer.Option("--client", help="The package that reads from Kafka; the second is an extra.")
    ] = KafkaClient.KAFKA_PYTHON,
    max_rows: Annotated[
        int, typer.Option("--max-rows", metavar="N", min=1, help="Messages of one transaction.")
    ] = 500_000,
    max_bytes: Annotated[
        int, typer.Option("--max-bytes", metavar="N", min=1, help="Bytes of messages of one transaction.")
    ] = 256 << 20,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", metavar="N", help="Time from a transaction's first message to its commit.")
    ] = 10.0,
    queue_max_bytes: Annotated[
        int,
        typer.Option("--queue-max-bytes", metavar="N", min=1, help="Bytes of messages that wait to be written."),
    ] = 64 << 20,
    auto_offset_reset: Annotated[
        AutoOffsetReset, typer.Option("--auto-offset-reset", help="Where a topic begins that has no position yet.")
    ] = AutoOffsetReset.EARLIEST,
    on_offset_loss: Annotated[
        OnOffsetLoss,
        typer.Option("--on-offset-loss", help="If the messages after a position are gone: stop, or where to continue."),
    ] = OnOffsetLoss.FAIL,
    isolation_level: Annotated[
        IsolationLevel, typer.Option("--isolation-level", help="Whether to read messages of open transactions.")
    ] = IsolationLevel.READ_COMMITTED,
    takeover_grace_seconds: Annotated[
        float,
        typer.Option(
            "--takeover-grace-seconds",
            metavar="N",
            min=0,
            help="How long a previous owner of a partition may keep its lock.",
        ),
    ] = 10.0,
    retry_seconds: Annotated[
        float, typer.Option("--retry-seconds", metavar="N", min=0, help="How long to retry when a server fails.")
    ] = 600.0,
    kafka_options: KafkaOptionOption = None,
    tombstones: Annotated[
        Tombstones, typer.Option("--tombstones", help="A message without a value is bad, is left out, or is a record.")
    ] = Tombstones.FAIL,
    on_error: OnErrorOption = OnError.FAIL,
    unknown_fields: UnknownFieldsOption = UnknownFields.IGNORE,
    missing_partition_keys: MissingPartitionKeysOption = MissingFields.FAIL,
    empty_partition_values: EmptyPartitionValuesOption = EmptyPartitionValues.NULL,
    field_delimiter: FieldDelimiterOption = ",",
    collection_delimiter: CollectionDelimiterOption = "\x02",
    map_key_delimiter: MapKeyDelimiterOption = "\x03",
    null_format: NullFormatOption = "\\N",
    escape: EscapeOption = None,
    columns: ColumnsOption = None,
    missing_fields: MissingFieldsOption = MissingFields.FAIL,
    quote: QuoteOption = '"',
    null_values: NullValuesOption = None,
    regex: RegexOption = None,
    case_insensitive: CaseInsensitiveOption = False,
    coerce: CoerceOption = Coerce.STRICT,
    timestamp_formats: TimestampFormatsOption = None,
    timezone: TimezoneOption = None,
    date_formats: DateFormatsOption = None,
    decimal_point: DecimalPointOption = DecimalPoint.POINT,
    max_record_bytes: MaxRecordBytesOption = 16 << 20,
    bad_records: BadRecordsOption = None,
    dead_letter_topic: Annotated[
        str | None,
        typer.Option(
            "--dead-letter-topic", metavar="NAME", help="With --on-error skip: send the bad messages to this topic."
        ),
    ] = None,
    max_bad_records: MaxBadRecordsOption = None,
    max_bad_record_share: MaxBadRecordShareOption = None,
    maintenance: Annotated[
        MaintenanceMode,
        typer.Option("--maintenance", help="Compact meanwhile: not at all, by requests only, or in this process."),
    ] = MaintenanceMode.OFF,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = "127.0.0.1",
    max_commit_age_seconds: MaxCommitAgeOption = None,
) -> None:
    """Write the messages of topics into tables, each exactly once, until SIGTERM or Ctrl-C.

    The first signal commits what was read, and the exit code is 0; a second one ends the process at once. After a
    crash, run the same command again.

    With --until-end the exit code is 3 if everything is committed, but bad messages were skipped.
    """
    from hive_ingest.metrics import HealthLimits
    from hive_ingest.streaming.kafka import KafkaIngest

    if config is None:
        refuse_options_of_other_formats(context, format)
    arguments = _arguments(context.params, _given(context))
    metastore_uri, folder = arguments.pop("metastore"), arguments.pop("warehouse", None)
    configured, where = arguments.pop("routes"), (arguments["bootstrap_servers"], arguments["kafka_options"])
    with connected(metastore_uri, folder) as opened_metastore, opened(configured, *where) as routes:
        running = KafkaIngest(metastore=opened_metastore, routes=routes, **arguments)
        for route in routes:
            say(f"topic {route.topic} to {route.table}, group {arguments['group_id']}")
        limits = HealthLimits(max_commit_age_seconds=max_commit_age_seconds)
        compacted = opened_metastore if arguments["maintenance"] == "inline" else None
        with (
            served_metrics(metrics_port, metrics_host, limits, metastore=compacted) as metrics,
            live_line(lambda: running.stats),
            _stopped_by_signals(running),
        ):
            if metrics is not None:
                metrics.watch(running)
            running.run(until_end=until_end)
    stats = running.stats
    confirm(_summary(stats))
    if until_end and stats.bad_messages:
        raise typer.Exit(RECORDS_SKIPPED)


def _summary(stats: KafkaIngestStats) -> str:
    text = f"{counted(stats.rows, 'row')} in {counted(stats.commits, 'transaction')}"
    return text + f"; {counted(stats.bad_messages, 'bad message')} skipped" * bool(stats.bad_messages)


# -- arguments -----------------------------------------------------------------------------------------


def _given(context: typer.Context) -> set[str]:
    """The options on the command line, which override the file. Those from the environment are defaults."""
    return {
        name
        for name in context.params
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    }


def _arguments(values: Mapping[str, Any], given: set[str]) -> dict[str, Any]:
    """The arguments of `KafkaIngest`, and `warehouse`."""
    own = {name: getattr(value, "value", value) for name, value in values.items()}
    options = _ingest_options(own)
    if values["config"] is None:
        options |= {"routes": [_route(own)], "kafka_options": {}}
    else:
        from hive_ingest.cli.kafka_config import read_config

        _refuse_route_options(given)
        file = read_config(values["config"])
        options = options | file | {name: options[name] for name in given & options.keys()}
    options["kafka_options"] = options["kafka_options"] | kafka_options_of(own["kafka_options"])
    for name in ("metastore", "bootstrap_servers", "group_id"):
        if not options.get(name):
            raise typer.BadParameter("is missing", param_hint=f"--{name.replace('_', '-')}")
    return options


def _ingest_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that apply to every route."""
    of_records = {name for format in MessageFormat for name in writer_options(format)}
    others = {*of_records, *_ROUTE_OPTIONS, "config", "until_end", "kafka_options", *_METRICS_OPTIONS}
    return {name: value for name, value in values.items() if name not in others}


def _route(values: Mapping[str, Any]) -> ConfiguredRoute:
    from hive_ingest.streaming.kafka import KafkaRoute, MessageColumns

    for name in ("topic", "table"):
        if not values[name]:
            raise typer.BadParameter("is missing; or give --config", param_hint=f"--{name}")
    columns = pairs(values["message_columns"] or [], "=", "--message-column")
    parts = [field.name for field in dataclasses.fields(MessageColumns)]
    unknown = sorted(columns.keys() - set(parts))
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]!r} is not a part of a message: use {', '.join(parts)}", param_hint="--message-column"
        )
    if values["format"] == MessageFormat.AVRO and not values["schema_registry"]:
        raise typer.BadParameter("is missing", param_hint="--schema-registry")
    if values["schema_registry"] and values["format"] != MessageFormat.AVRO:
        raise typer.BadParameter("has no effect without --format avro", param_hint="--schema-registry")
    if values["bad_records"] and values["dead_letter_topic"]:
        raise typer.BadParameter("give one of --bad-records and --dead-letter-topic", param_hint="--dead-letter-topic")
    route = KafkaRoute(
        topic=values["topic"],
        table=values["table"],
        sink=values["sink"],
        record_writer=writer_from_options({**values, "header": False}),
        columns=MessageColumns(**columns),
        tombstones=values["tombstones"],
        max_bad_records=values["max_bad_records"],
        max_bad_record_share=values["max_bad_record_share"],
    )
    file = values["bad_records"]
    return ConfiguredRoute(route, str(file) if file else None, values["dead_letter_topic"])


def _refuse_route_options(given: set[str]) -> None:
    of_records = {name for format in MessageFormat for name in writer_options(format)}
    misplaced = sorted(given & {*_ROUTE_OPTIONS, *of_records})
    if misplaced:
        raise typer.BadParameter(
            "belongs in the file's [[routes]] when --config is given", param_hint=f"--{misplaced[0].replace('_', '-')}"
        )


# -- signals -------------------------------------------------------------------------------------------


@contextmanager
def _stopped_by_signals(running: KafkaIngest) -> Iterator[None]:
    """Have the first signal end the ingest after a commit; the second has its usual effect."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)} if is_main else {}

    def stop(number: int, frame: FrameType | None) -> None:
        for each, handler in before.items():
            signal.signal(each, handler)
        running.stop()  # first: writing fails if the signal has interrupted the thread while it was writing too
        with suppress(RuntimeError):
            say(f"{signal.Signals(number).name}: committing what was read")

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
