"""Files of other writers, whose stripes are copied as they are: only what can be read afterwards."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.errors import UnsupportedFeature
from hive_ingest.orc.format.protobuf import int_field, read_fields
from tests.support.acid_files import write_acid_file
from tests.unit.compaction.folders import Folder, tail_of

ROWS = 60_000
#: Less than the stripes of these files have in memory, so that they are copied.
STRIPE_BYTES = 2 << 20
_METADATA_LENGTH = 5  # the field of the postscript


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "t").mkdir()
    return Folder(tmp_path / "t")


def insert(folder: Folder, write_id: int, *, operation: int = 0) -> Path:
    """A delta in pyarrow's own file, with another compression than ours."""
    texts = [random.Random(i).randbytes(30).hex() for i in range(ROWS)]
    rows = pa.StructArray.from_arrays([pa.array(range(ROWS), pa.int32()), pa.array(texts)], names=["id", "text"])
    ids = [(write_id, encode_bucket(0), i) for i in range(ROWS)]
    path = folder.path / f"delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000"
    folder.high_water_mark = max(folder.high_water_mark, write_id)
    return Path(write_acid_file(path, ids, rows=rows, operation=operation, compression="zlib"))


def without_stripe_statistics(path: Path) -> None:
    """As writers before Hive 0.12 left them out."""
    content, postscript = path.read_bytes(), tail_of(path).postscript
    end = len(content) - 1 - content[-1]
    footer = end - postscript.footer_length
    shorter = b"".join(
        int_field(_METADATA_LENGTH, 0) if field.number == _METADATA_LENGTH else field.raw
        for field in read_fields(content[end:-1])
    )
    metadata = footer - postscript.metadata_length
    path.write_bytes(content[:metadata] + content[footer:end] + shorter + bytes([len(shorter)]))


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_a_file_without_stripe_statistics_is_encoded_again(folder: Folder, kind: str) -> None:
    insert(folder, 1)
    without_stripe_statistics(insert(folder, 2))
    before = folder.rows()
    assert folder.compact(kind, stripe_bytes=STRIPE_BYTES) is not None
    assert folder.rows() == before
    assert len(before) == 2 * ROWS


def test_large_stripes_with_updates_are_not_copied_as_if_they_were_inserts(folder: Folder) -> None:
    insert(folder, 1)
    updates = insert(folder, 2, operation=1)
    with pytest.raises(UnsupportedFeature, match=f"{updates}.* holds updates or deletes among its rows"):
        folder.compact("minor", stripe_bytes=STRIPE_BYTES)
    assert folder.staged == []
