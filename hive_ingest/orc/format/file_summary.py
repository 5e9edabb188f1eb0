"""What the tail of an ORC file says, for operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.acid_schema import ACID_COLUMNS, ACID_ITEMS
from hive_ingest.orc.format.column_bounds import column_bounds
from hive_ingest.orc.format.columns import OrcColumn, OrcKind, column_tree
from hive_ingest.orc.format.protobuf import WireError
from hive_ingest.orc.format.tail import read_tail
from hive_ingest.storage import Location

#: By the number in the footer (orc_proto.proto).
_WRITERS = {0: "ORC Java", 1: "ORC C++", 2: "Presto", 3: "ORC Scritchley Go", 4: "Trino", 5: "cuDF"}
_CALENDARS = {1: "Julian and Gregorian", 2: "proleptic Gregorian"}
_KINDS: dict[int, str] = {kind.value: kind.name.lower() for kind in OrcKind}


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """A column with its statistics over the whole file; None: not known.

    Attributes:
        name: Fields of structs with their path: "row.address.city".
        kind: ORC's type.
    """

    name: str
    kind: str
    values: int | None
    may_have_nulls: bool
    low: int | str | Decimal | None
    high: int | str | Decimal | None


@dataclass(frozen=True, slots=True)
class StripeSummary:
    """Where a stripe lies."""

    offset: int
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class FileSummary:
    """An ORC file by its tail.

    Attributes:
        is_acid: Whether it has Hive's ACID columns.
        calendar: Of its dates; "unknown" if the footer does not say.
        has_checksums: Whether it carries checksums, as files written here do.
        metadata: `hive.acid.*`, as text.
    """

    path: str
    bytes: int
    rows: int
    is_acid: bool
    compression: str
    block_bytes: int
    row_index_stride: int
    writer: str
    writer_version: int
    calendar: str
    has_checksums: bool
    metadata: dict[str, str]
    stripes: tuple[StripeSummary, ...]
    columns: tuple[ColumnSummary, ...]


def summarise_file(location: Location) -> FileSummary:
    """Read the tail of an ORC file. Raises CorruptFile, StreamingIOFailure."""
    path = location.path
    with location.open_input() as source:
        size = source.size()
        tail = read_tail(source, path)
    root = column_tree(tail, path)
    footer = tail.footer
    return FileSummary(
        path=path,
        bytes=size,
        rows=footer.rows,
        is_acid=tuple(child.name for child in root.children) == ACID_COLUMNS,
        compression=tail.postscript.codec.name.lower(),
        block_bytes=tail.postscript.block_size,
        row_index_stride=footer.row_index_stride,
        writer=_writer(footer.writer, footer.software_version),
        writer_version=tail.postscript.writer_version,
        calendar=_CALENDARS.get(footer.calendar or 0, "unknown"),
        has_checksums=tail.checksums is not None,
        metadata={
            name: value.decode("utf-8", "replace") for name, value in footer.user_metadata.items() if name in ACID_ITEMS
        },
        stripes=tuple(StripeSummary(stripe.offset, stripe.length, stripe.rows) for stripe in footer.stripes),
        columns=tuple(_columns(root, "", path)),
    )


def _writer(number: int | None, version: bytes | None) -> str:
    name = _WRITERS[0] if number is None else _WRITERS.get(number, f"writer {number}")
    return f"{name} {version.decode('utf-8', 'replace')}" if version else name


def _columns(parent: OrcColumn, prefix: str, path: str) -> Iterator[ColumnSummary]:
    """All below a column, in the order of the file; items of lists and maps have no name."""
    for number, child in enumerate(parent.children):
        name = f"{prefix}{child.name or number}"
        try:
            found = column_bounds(child)
        except WireError as error:
            raise CorruptFile(
                f"{path!r} has column statistics that cannot be read: {error}. Restore the file from a copy"
            ) from error
        kind = _KINDS.get(child.kind, f"kind {child.kind}")
        yield ColumnSummary(name, kind, found.values, found.may_have_nulls, found.low, found.high)
        yield from _columns(child, f"{name}.", path)
