"""A damaged input ends a compaction: it names the file, the old files stay, and what is whole can still be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.compaction import JobSettings, MergeSettings
from hive_ingest.errors import CorruptFile
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState, CompactionType
from hive_ingest.storage import Location
from tests.support.compactions import FAST, MAJOR, MINOR, Compacted
from tests.support.tables import files_of

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own queue"),
    pytest.mark.one_embedded,
]

#: Stripes of more than half of this are copied by their bytes.
COPIES = JobSettings(merge=MergeSettings(stripe_bytes=64, fsync=False), lock_wait_seconds=2)
DAMAGED = "damaged"


def flip_a_byte(content: bytes) -> bytes:
    return content[:10] + bytes([content[10] ^ 0x40]) + content[11:]


def flip_a_byte_of_the_tail(content: bytes) -> bytes:
    return content[:-150] + bytes([content[-150] ^ 0x01]) + content[-149:]


def cut(content: bytes) -> bytes:
    return content[:-100]


def replace_by_text(content: bytes) -> bytes:
    return b"no ORC at all" * (len(content) // 13)


DAMAGES = (flip_a_byte, flip_a_byte_of_the_tail, cut, replace_by_text)


@pytest.fixture
def parts(ms: EmbeddedMetastoreClient) -> Compacted:
    """The partition that gets damaged, with delete events, and one that stays whole."""
    table = Compacted(ms, partition_keys={"part": "string"})
    table.inserts(1, 4, part=DAMAGED)
    table.inserts(5, 8, part="whole")
    table.delete(table.row_id(2), part=DAMAGED)
    table.delete(table.row_id(3), part=DAMAGED)
    return table


def damage(table: Compacted, folder: str, change: Callable[[bytes], bytes]) -> Path:
    """Change one file of a folder whose name begins so."""
    (path, *_) = sorted(table.place(DAMAGED).glob(f"{folder}*/bucket_*"))
    path.write_bytes(change(path.read_bytes()))
    return path


@pytest.mark.parametrize(
    ("folder", "settings"),
    [("delta", FAST), ("delta", COPIES), ("delete_delta", FAST)],
    ids=["encoded", "copied", "delete_events"],
)
@pytest.mark.parametrize("kind", [MINOR, MAJOR], ids=["minor", "major"])
@pytest.mark.parametrize("change", DAMAGES, ids=lambda change: change.__name__)
def test_a_damaged_file_ends_the_compaction_by_its_name(
    parts: Compacted, change: Callable[[bytes], bytes], folder: str, kind: CompactionType, settings: JobSettings
) -> None:
    before = parts.rows()
    path = damage(parts, folder, change)
    files = files_of(parts.client, parts.name.table)
    parts.request(kind, part=DAMAGED)

    result = parts.work(settings)

    assert result.state is CompactionState.FAILED
    assert Location.of(str(path)).path in result.message
    newest = parts.history()[0]
    assert (newest.state, newest.error_message) == (CompactionState.FAILED, result.message)
    assert files_of(parts.client, parts.name.table) == files
    parts.clean()
    assert files_of(parts.client, parts.name.table) == files
    assert parts.client.get_valid_txns().open == ()
    whole = hi.read_table(parts.client, parts.name, where="part = 'whole'")
    assert sorted(whole["id"].to_pylist()) == [row[1] for row in before if row[-1] == "whole"]
    with pytest.raises(CorruptFile, match=path.parent.name):
        hi.read_table(parts.client, parts.name)


def test_other_partitions_are_compacted_and_the_file_can_be_put_back(parts: Compacted) -> None:
    before = parts.rows()
    (path,) = parts.place(DAMAGED).glob("delta_0000001_*/bucket_*")
    content = path.read_bytes()
    path.write_bytes(flip_a_byte(content))
    assert parts.compact(MAJOR, part=DAMAGED).state is CompactionState.FAILED
    assert parts.compact(MAJOR, part="whole").state is CompactionState.READY_FOR_CLEANING
    path.write_bytes(content)
    assert parts.rows() == before
    assert parts.compact(MAJOR, part=DAMAGED).state is CompactionState.READY_FOR_CLEANING
    parts.clean()
    assert parts.rows() == before
    assert len(parts.folders(DAMAGED)) == len(parts.folders("whole")) == 1
