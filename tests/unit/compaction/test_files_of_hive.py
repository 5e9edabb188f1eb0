"""Folders that real Hive left, compacted here: readers see the same rows and ROW__IDs (see tests/data/hive)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hive_ingest.errors import UnsupportedFeature
from tests.support.hive_tables import DATA, unpack_all
from tests.unit.compaction.folders import Folder, tail_of

TABLES = json.loads((DATA / "tables.json").read_text())
#: Tables with values that cannot be read, or not be written without changing them, and columns that do not fit.
_REFUSED = {"far", "ancient"}
_ONE_FOLDER = {"zoned"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_all(tmp_path_factory.mktemp("hive_tables"))


def folders_of(source: Path) -> list[Path]:
    """The folder of the table, or of each partition."""
    return sorted({path.parent.parent for path in source.rglob("bucket_*")})


@pytest.mark.parametrize("kind", ["minor", "major"])
@pytest.mark.parametrize("key", sorted(TABLES))
def test_rows_and_row_ids_stay_the_same(key: str, kind: str, tables: Path, tmp_path: Path) -> None:
    spec = TABLES[key]
    compacted = 0
    for number, source in enumerate(folders_of(tables / key)):
        path = tmp_path / f"{number}"
        shutil.copytree(source, path)
        folder = Folder(path, columns=spec["columns"], high_water_mark=spec["write_ids"])
        try:
            before = folder.rows()
            result = folder.compact(kind, 900)
        except UnsupportedFeature:
            assert key.partition("/")[2] in _REFUSED
            assert folder.staged == []
            return
        if result is None:
            continue
        compacted += 1
        assert folder.rows() == before
        for file in result.files:
            assert tail_of(path / file.folder_name / file.file_name).checksums is not None
    name = key.partition("/")[2]
    if kind == "major" and len(spec["rows"]) > 1 and not spec["partition_keys"] and name not in _ONE_FOLDER:
        assert compacted


def test_a_batch_that_is_still_being_written_is_left_alone(tables: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(tables / "3.1.3/streamed", path)
    columns = {"id": "bigint", "user": "string", "msg": "string", "value": "double", "country": "string"}
    folder = Folder(path, columns=columns, aborted={3}, high_water_mark=4)
    before = folder.rows()
    assert folder.plan("minor") is None
    # Its last transaction has ended, and others have written.
    folder.insert(6, [(1, "u", "m", 0.5, "c")])
    folder.insert(7, [(1, "u", "m", 0.5, "c")])
    folder.high_water_mark = 7
    folder.aborted = {3, 5}
    with_ours = folder.rows()
    result = folder.compact("minor")
    assert result is not None
    assert folder.rows() == with_ours
    assert [row for row in with_ours if row[0][0] <= 4] == before
