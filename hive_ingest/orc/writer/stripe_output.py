"""A file put together from whole stripes: copied from other files by bytes, or encoded just now.

Everything that a reader takes from the file as a whole (`file_traits`) must be equal for all of them. Offsets,
statistics, Hive's metadata and checksums are made for the new file.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import pyarrow as pa

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.acid_schema import ACID_ITEMS, Key, acid_user_metadata
from hive_ingest.orc.format.checksums import CHECKSUM_ITEMS, ChecksummedOutput
from hive_ingest.orc.format.codec import pack
from hive_ingest.orc.format.protobuf import WireError, bytes_field
from hive_ingest.orc.format.stripe_statistics import corrupt_statistics, merged_statistics, short_statistics
from hive_ingest.orc.format.tail import MAGIC, OrcTail, Stripe, completed_tail, encode_footer
from hive_ingest.orc.writer.file_writer import AcidFile
from hive_ingest.storage import BytesLike, FileStore, io_errors

_COPY_BYTES = 4 * 1024 * 1024
#: User metadata that is made for each file; all other must be the same in all of them.
OWN_ITEMS = ACID_ITEMS | CHECKSUM_ITEMS


@dataclass(frozen=True, slots=True)
class WholeStripe:
    """A stripe to put into a file.

    Attributes:
        path: The file that it comes from, for messages.
        stripe: Where it lies there.
        statistics: Its columns' statistics, as an encoded `StripeStatistics`.
        last_key: The key of its last row.
    """

    path: str
    stripe: Stripe
    statistics: bytes
    last_key: Key


def file_traits(tail: OrcTail) -> dict[str, object]:
    """What a reader takes from the file as a whole, so that it must be equal in files whose stripes are joined."""
    postscript, footer = tail.postscript, tail.footer
    return {
        "column types": footer.types,
        "compression": postscript.codec.name,
        "compression block size": postscript.block_size,
        "file version": postscript.version,
        "writer version": postscript.writer_version,
        "writer": footer.writer,
        "calendar": footer.calendar,
        "row index stride": footer.row_index_stride,
        "user metadata": {name: v for name, v in footer.user_metadata.items() if name not in OWN_ITEMS},
        "encryption": footer.has_encryption or any(stripe.extra for stripe in footer.stripes),
    }


class StripeOutput:
    """A file that is complete after `finish`; in a `with` block, any error removes it."""

    def __init__(self, store: FileStore, path: str, *, like: OrcTail, sync: bool) -> None:
        """
        Args:
            store: Where the file is made.
            path: Its path; there is no file yet.
            like: The tail of a file with the traits of all stripes that will be appended.
            sync: Whether the file is on the device after `finish`.

        Raises:
            StreamingIOFailure: The file cannot be made.
        """
        self.path = path
        self._like = like
        self._out = store.create(path, sync=sync)
        self._content = ChecksummedOutput(self._out)
        self._stripes: list[Stripe] = []
        self._statistics: list[bytes] = []
        self._keys: list[Key] = []

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._content.tell()

    @property
    def closed(self) -> bool:
        return self._out.closed

    def append(self, content: pa.NativeFile, whole: WholeStripe) -> None:
        """Copy a stripe; `content` is the file it lies in. Raises CorruptFile, StreamingIOFailure."""
        self._add(whole)
        copy_bytes(content, whole.stripe.offset, whole.stripe.length, self._content, whole.path)

    def append_parts(self, parts: Sequence[BytesLike], whole: WholeStripe) -> None:
        """The same for a stripe in memory, in parts that must not be changed afterwards. Raises StreamingIOFailure."""
        self._add(whole)
        for part in parts:
            self._content.write(part)

    def _add(self, whole: WholeStripe) -> None:
        if not self._stripes:
            self._content.write(MAGIC)
        self._stripes.append(replace(whole.stripe, offset=self._content.tell()))
        try:
            self._statistics.append(short_statistics(whole.statistics))
        except WireError as error:
            raise corrupt_statistics(whole.path, error) from error
        self._keys.append(whole.last_key)

    def finish(self) -> AcidFile | None:
        """Write the tail; without a stripe the file is removed, and None is returned."""
        if not self._stripes:
            self._out.discard()
            return None
        return self.close()

    def close(self) -> AcidFile:
        """Write the tail, also of a file without rows."""
        file = self._end()
        self._out.close()
        return file

    def begin_close(self) -> tuple[AcidFile, Future[None]]:
        """The same, without waiting for the device: the file is complete when the future has a result."""
        return self._end(), self._out.begin_close()

    def _end(self) -> AcidFile:
        if not self._stripes:
            self._content.write(MAGIC)
        rows = tuple(stripe.rows for stripe in self._stripes)
        self._content.end(self._tail(sum(rows)))
        return AcidFile(self.path, sum(rows), self._out.tell(), rows)

    def discard(self) -> None:
        """Remove the file. Does nothing after `close` or `discard`."""
        self._out.discard()

    def _tail(self, rows: int) -> bytes:
        """Writes the stripe statistics, and returns what follows them."""
        like, postscript = self._like.footer, self._like.postscript
        footer = replace(
            like,
            content_length=self._content.tell(),
            stripes=tuple(self._stripes),
            user_metadata={name: v for name, v in like.user_metadata.items() if name not in OWN_ITEMS},
            rows=rows,
            statistics=self._file_statistics(),
        )
        section = b"".join(bytes_field(1, message) for message in self._statistics)
        metadata = pack(section, postscript.codec, postscript.block_size)
        self._content.write(metadata)
        return completed_tail(
            pack(encode_footer(footer), postscript.codec, postscript.block_size),
            postscript,
            metadata_length=len(metadata),
            checksums=self._content.checksums(),
            items=acid_user_metadata(self._keys, inserts=rows),
            calendar=footer.calendar,
        )

    def _file_statistics(self) -> tuple[bytes, ...]:
        try:
            types, like = self._like.footer.types, self._like.footer.statistics
            return merged_statistics(self._statistics, len(types)) if self._statistics else like
        except WireError as error:
            raise corrupt_statistics(self.path, error) from error

    def __enter__(self) -> StripeOutput:
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if exc is not None:
            self._out.__exit__(type(exc), exc, None)


def copy_bytes(source: pa.NativeFile, offset: int, length: int, out: ChecksummedOutput, path: str) -> None:
    """Raises CorruptFile when the source ends too early, StreamingIOFailure."""
    with io_errors("read", path):
        source.seek(offset)
    while length:
        with io_errors("read", path):
            data = source.read_buffer(min(length, _COPY_BYTES))
        if not data.size:
            raise CorruptFile(f"{path!r} ended while it was read: another process has truncated it")
        out.write(data)
        length -= data.size
