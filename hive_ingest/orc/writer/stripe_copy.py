"""Joins ORC files of one (write id, bucket property) by copying the bytes of their stripes.

Nothing is decoded: offsets, statistics, Hive's key index and checksums are written for the new file; the stripes are
copied unchanged, and verified. So all properties of a file as a whole must be equal in all sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa

from hive_ingest.errors import CorruptFile, IncompatibleStripes
from hive_ingest.model import WriteId
from hive_ingest.orc.acid_schema import (
    ACID_KEY_INDEX,
    BUCKET,
    ORIGINAL_WRITE_ID,
    ROW_ID,
    Key,
    acid_user_metadata,
    orc_column_id,
    parse_key_index,
)
from hive_ingest.orc.format.checksums import ChecksummedOutput, verified_input
from hive_ingest.orc.format.codec import pack
from hive_ingest.orc.format.column_statistics import int_range, merge_column_statistics
from hive_ingest.orc.format.protobuf import WireError, bytes_field
from hive_ingest.orc.format.stripe_statistics import corrupt_statistics, stripe_statistics
from hive_ingest.orc.format.tail import (
    MAGIC,
    Footer,
    OrcTail,
    Stripe,
    completed_tail,
    encode_footer,
    read_tail,
)
from hive_ingest.orc.writer.acid_writer import AcidFile
from hive_ingest.orc.writer.stripe_output import OWN_ITEMS, copy_bytes, file_traits
from hive_ingest.storage import FileStore, Location


@dataclass(frozen=True, slots=True)
class _Source:
    """A file to copy from. `content` returns verified bytes if the file has checksums."""

    path: str
    content: pa.NativeFile
    tail: OrcTail


def join(
    store: FileStore,
    sources: Sequence[str],
    target: Location,
    *,
    write_id: WriteId,
    bucket_property: int,
    sync: bool,
) -> AcidFile:
    """Join files of a store that `AcidOrcWriter` wrote, in the order of their row ids, into the new file `target`.

    The sources are kept. Raises IncompatibleStripes (what differs, and in which file), CorruptFile, StreamingIOFailure;
    then no target exists.
    """
    if not sources:
        raise IncompatibleStripes(f"there is nothing to join into {str(target)!r}: name at least one file")
    with ExitStack() as stack:
        opened = [_open(stack, store, path) for path in sources]
        _check_equal(opened)
        _check_rows(opened, write_id, bucket_property)
        with target.create(sync=sync) as out:
            content = ChecksummedOutput(out)
            stripes = _copy_stripes(opened, content)
            content.end(_written_tail(opened, stripes, content, write_id, bucket_property))
    rows = tuple(stripe.rows for stripe in stripes)
    return AcidFile(target.path, sum(rows), out.tell(), rows)


def _open(stack: ExitStack, store: FileStore, path: str) -> _Source:
    file = stack.enter_context(store.open_input(path))
    tail = read_tail(file, path)
    if tail.checksums is not None:
        file, _ = verified_input(file, tail.checksums, tail.encoded, path)
    return _Source(path, file, tail)


def _check_equal(sources: Sequence[_Source]) -> None:
    first = file_traits(sources[0].tail)
    if first["encryption"]:
        raise IncompatibleStripes(f"{sources[0].path!r} is encrypted: its stripes cannot be copied")
    for source in sources[1:]:
        for name, value in file_traits(source.tail).items():
            if value != first[name]:
                raise IncompatibleStripes(
                    f"{source.path!r} cannot be joined with {sources[0].path!r}: another {name} "
                    f"({value!r} and {first[name]!r}). Write all files of a group with the same settings"
                )


def _check_rows(sources: Sequence[_Source], write_id: WriteId, bucket_property: int) -> None:
    """Check that every row has this write id and bucket, and that row ids continue from file to file."""
    next_row_id: int | None = None
    for source in sources:
        footer = source.tail.footer
        if not footer.rows:
            continue
        keys = _key_index(source)
        start = keys[0][2] - footer.stripes[0].rows + 1
        if next_row_id is not None and start != next_row_id:
            raise IncompatibleStripes(
                f"{source.path!r} starts with row id {start}, but {next_row_id} follows on the file before: "
                "join the files in the order in which they were written"
            )
        next_row_id = start
        for stripe, key in zip(footer.stripes, keys, strict=True):
            next_row_id += stripe.rows
            if key != (write_id, bucket_property, next_row_id - 1):
                raise IncompatibleStripes(
                    f"{source.path!r} ends a stripe with the row {key}, expected write id {write_id}, bucket property "
                    f"{bucket_property}, row id {next_row_id - 1}: it belongs to another group"
                )
        expected = {
            ORIGINAL_WRITE_ID: (write_id, write_id),
            BUCKET: (bucket_property, bucket_property),
            ROW_ID: (start, next_row_id - 1),
        }
        _check_statistics(source, expected)


def _key_index(source: _Source) -> list[Key]:
    footer = source.tail.footer
    value = footer.user_metadata.get(ACID_KEY_INDEX, b"")
    try:
        keys = parse_key_index(value)
    except ValueError as error:
        raise CorruptFile(f"{source.path!r} has a {ACID_KEY_INDEX} that cannot be read: {value!r}") from error
    if len(keys) != len(footer.stripes):
        raise IncompatibleStripes(
            f"{source.path!r} has {len(footer.stripes)} stripes and {len(keys)} keys in {ACID_KEY_INDEX}: "
            "it was not written as an ACID file; write it with AcidOrcWriter"
        )
    return keys


def _check_statistics(source: _Source, expected: dict[str, tuple[int, int]]) -> None:
    statistics = source.tail.footer.statistics
    for column, bounds in expected.items():
        at = orc_column_id(column)
        try:
            found = int_range(statistics[at]) if at < len(statistics) else None
        except WireError as error:
            raise corrupt_statistics(source.path, error) from error
        if found is not None and found != bounds:
            raise IncompatibleStripes(
                f"{source.path!r} holds {found} in its column {column}, expected {bounds}: "
                "it belongs to another group, or its rows are not in order"
            )


def _copy_stripes(sources: Sequence[_Source], out: ChecksummedOutput) -> list[Stripe]:
    out.write(MAGIC)
    copied = []
    for source in sources:
        for stripe in source.tail.footer.stripes:
            copied.append(replace(stripe, offset=out.tell()))
            copy_bytes(source.content, stripe.offset, stripe.length, out, source.path)
    return copied


def _written_tail(
    sources: Sequence[_Source],
    stripes: Sequence[Stripe],
    out: ChecksummedOutput,
    write_id: WriteId,
    bucket_property: int,
) -> bytes:
    """Write the stripe statistics. Returns the bytes that follow them."""
    first = sources[0].tail
    postscript = first.postscript
    rows = sum(stripe.rows for stripe in stripes)
    keys = [(write_id, bucket_property, row_id) for row_id in _last_row_ids(sources)]
    footer = replace(
        first.footer,
        content_length=out.tell(),
        stripes=tuple(stripes),
        user_metadata={name: v for name, v in first.footer.user_metadata.items() if name not in OWN_ITEMS},
        rows=rows,
        statistics=_merged_statistics(sources),
        software_version=_common_software_version(sources),
    )
    metadata = pack(_joined_stripe_statistics(sources), postscript.codec, postscript.block_size)
    out.write(metadata)
    return completed_tail(
        pack(encode_footer(footer), postscript.codec, postscript.block_size),
        postscript,
        metadata_length=len(metadata),
        checksums=out.checksums(),
        items=acid_user_metadata(keys, inserts=rows),
        calendar=footer.calendar,
    )


def _last_row_ids(sources: Sequence[_Source]) -> list[int]:
    return [key[2] for source in sources if source.tail.footer.rows for key in _key_index(source)]


def _common_software_version(sources: Sequence[_Source]) -> bytes | None:
    versions = {source.tail.footer.software_version for source in sources}
    return versions.pop() if len(versions) == 1 else None


def _merged_statistics(sources: Sequence[_Source]) -> tuple[bytes, ...]:
    footers: list[Footer] = [s.tail.footer for s in sources if s.tail.footer.rows] or [sources[0].tail.footer]
    if any(len(footer.statistics) != len(footer.types) for footer in footers):
        return ()
    try:
        return tuple(map(merge_column_statistics, zip(*(footer.statistics for footer in footers), strict=True)))
    except WireError as error:
        raise corrupt_statistics(sources[0].path, error) from error


def _joined_stripe_statistics(sources: Sequence[_Source]) -> bytes:
    """Of all stripes; without those of one file, positions would shift, so none are kept."""
    parts = [stripe_statistics(source.content, source.tail, source.path) for source in sources]
    if any(part is None for part in parts):
        return b""
    return b"".join(bytes_field(1, message) for part in parts for message in part or ())
