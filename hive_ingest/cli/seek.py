"""`hive-ingest sinks seek` and `seek-file`: set the positions of a sink in a Kafka topic, or in a file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_ingest.cli.ingest import SourceKey
from hive_ingest.cli.kafka_options import KafkaOptionOption, kafka_options_of
from hive_ingest.cli.options import DryRunOption, MetastoreOption, TableArgument, WarehouseOption, connected
from hive_ingest.cli.record_options import (
    EscapeOption,
    FieldDelimiterOption,
    Format,
    FormatOption,
    HeaderOption,
    QuoteOption,
    writer_from_options,
)

if TYPE_CHECKING:
    from hive_ingest.streaming import FileSeek
    from hive_ingest.streaming.kafka.seek import SeekResult


def seek(
    table: TableArgument,
    metastore: MetastoreOption,
    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic.", show_default=False)],
    bootstrap_servers: Annotated[
        str,
        typer.Option(
            "--bootstrap-servers", metavar="HOST:PORT,…", help="Brokers to connect to first.", show_default=False
        ),
    ],
    warehouse: WarehouseOption = None,
    sink: Annotated[
        str | None, typer.Option("--sink", metavar="NAME", help="The sink. Default: the table's name.")
    ] = None,
    to_offset: Annotated[
        str | None,
        typer.Option("--to-offset", metavar="N|earliest|latest", help="The next offset to read.", show_default=False),
    ] = None,
    to_timestamp: Annotated[
        str | None,
        typer.Option(
            "--to-timestamp",
            metavar="TIME",
            help="The first message from this time on, such as 2025-01-31T08:00:00Z.",
            show_default=False,
        ),
    ] = None,
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", metavar="N", help="Only this partition; repeat it. Default: all.", min=0),
    ] = None,
    new_topic: Annotated[
        bool, typer.Option("--new-topic", help="Add a topic to a sink that has positions in other topics only.")
    ] = False,
    kafka_options: KafkaOptionOption = None,
    lock_wait_seconds: Annotated[
        float,
        typer.Option("--lock-wait-seconds", metavar="N", min=0, help="How long to wait for an open transaction."),
    ] = 10.0,
    dry_run: DryRunOption = False,
) -> None:
    """Set where an ingest from Kafka continues. Rows may repeat: messages that are read again are written again.

    Stop the ingest first: the command is refused while the ingest has an open transaction.
    """
    from hive_ingest.streaming.kafka.seek import seek_offsets

    if (to_offset is None) == (to_timestamp is None):
        raise typer.BadParameter("give one of --to-offset and --to-timestamp", param_hint="--to-offset")
    target: Any = int(to_offset) if to_offset is not None and to_offset.isdecimal() else to_offset
    with connected(metastore, warehouse) as client:
        results = seek_offsets(
            client,
            table,
            topic,
            bootstrap_servers=bootstrap_servers,
            to_offset=target,
            to_timestamp=_time(to_timestamp) if to_timestamp is not None else None,
            sink=sink,
            partitions=partitions or None,
            new_topic=new_topic,
            kafka_options=kafka_options_of(kafka_options),
            settings={"lock_wait_seconds": lock_wait_seconds},
            dry_run=dry_run,
        )
    for line in _report(results):
        typer.echo(f"{_prefix(dry_run)}{line}")


def seek_file(
    context: typer.Context,
    table: TableArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file, as it is now.", show_default=False)],
    metastore: MetastoreOption,
    to_record: Annotated[
        str,
        typer.Option(
            "--to-record", metavar="N|start|end", help="How many records count as committed.", show_default=False
        ),
    ],
    warehouse: WarehouseOption = None,
    format: FormatOption = Format.JSON,
    sink: Annotated[
        str | None, typer.Option("--sink", metavar="NAME", help="The sink. Default: the table's name.")
    ] = None,
    source_key: Annotated[SourceKey, typer.Option("--source-key", help="As for ingest.")] = SourceKey.PATH,
    header_lines: Annotated[
        int, typer.Option("--header-lines", metavar="N", min=0, help="Header lines of the file.")
    ] = 0,
    field_delimiter: FieldDelimiterOption = ",",
    header: HeaderOption = True,
    quote: QuoteOption = '"',
    escape: EscapeOption = None,
    lock_wait_seconds: Annotated[
        float,
        typer.Option("--lock-wait-seconds", metavar="N", min=0, help="How long to wait for an open transaction."),
    ] = 10.0,
    dry_run: DryRunOption = False,
) -> None:
    """Set after which record of a file ingest continues. Records before may be written again, or left out.

    Also accepts a file whose committed part was edited, which ingest refuses.
    """
    from hive_ingest import streaming

    target: Any = int(to_record) if to_record.isdecimal() else to_record
    with connected(metastore, warehouse) as client:
        found = streaming.seek_file(
            client,
            table,
            file,
            to_record=target,
            record_writer=writer_from_options(context.params),
            sink=sink,
            source_key=source_key.value,
            header_lines=header_lines,
            settings={"lock_wait_seconds": lock_wait_seconds},
            dry_run=dry_run,
        )
    before = "no position" if found.before is None else f"record {found.before.records}"
    typer.echo(f"{_prefix(dry_run)}{found.source}: {before} -> record {found.after.records}{_what_is_repeated(found)}")


def _prefix(dry_run: bool) -> str:
    return "would set " if dry_run else ""


def _what_is_repeated(found: FileSeek) -> str:
    if found.before is None or found.before.records == found.after.records:
        return ""
    low, high = sorted((found.before.records, found.after.records))
    verb = "are written again" if found.after.records < found.before.records else "are left out"
    return f"; CAUTION: records {low + 1} to {high} {verb}"


def _time(text: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r}: write a time such as 2025-01-31T08:00:00Z", param_hint="--to-timestamp"
        ) from error


def _report(results: Sequence[SeekResult]) -> Iterator[str]:
    from hive_ingest.streaming.kafka.positions import source_name

    for each in results:
        before = "no position" if each.before is None else f"offset {each.before}"
        yield f"{source_name(each.topic, each.partition)}: {before} -> offset {each.after}{_what_it_means(each)}"


def _what_it_means(result: SeekResult) -> str:
    if result.before is None or result.before == result.after:
        return ""
    if not result.is_same_topic:
        return "; the topic was deleted and created again: CAUTION: its messages may be in the table already"
    if result.after < result.before:
        return f"; CAUTION: offsets {result.after} to {result.before - 1} are written again"
    return f"; CAUTION: offsets {result.before} to {result.after - 1} are left out"
