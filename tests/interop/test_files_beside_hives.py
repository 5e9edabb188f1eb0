"""Our files compared with Hive's for the same rows: docs/design.md explains each difference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from hive_ingest.metastore_client import MetastoreClient
from tests.interop import streamed
from tests.interop.hive import RealHive
from tests.interop.orc_files import described
from tests.interop.tables import orc_properties
from tests.support.tables import folder_of

DESIGN = Path(__file__).parents[2] / "docs" / "design.md"
ROWS = range(50)
ANY = ".*"


class Difference(NamedTuple):
    """Regular expressions: which keys of `described` differ, how ours then reads, and how Hive's."""

    keys: str
    ours: str
    its: str
    versions: tuple[str, ...] = ("3.1.3", "4.0.1")


#: By the first column of the table in docs/design.md. "None": not there.
DIFFERENCES = {
    "file name": Difference("file name", "bucket_00000", "bucket_00000_0", ("4.0.1",)),
    "writer": Difference("writer", r"1 6 b'\d.*'", r"0 (7 None|9 b'1\.8.*')"),
    "calendar": Difference("calendar", "2", "None|1"),
    "time zone": Difference("time zone", "GMT", "UTC"),
    "compression block": Difference("block size", "65536", "16384"),
    "char and varchar": Difference(r"type row\.[cv] (kind|length)", "7|None", r"1[67]|\d+"),
    "bounds of char": Difference(r".*(statistics|stripe 1) row\.c (min|max|sum)", ANY, ANY),
    "null flag inside structs": Difference(r".* row\.(nested|many)\..* hasNull", "true", "false"),
    "bytes of a column": Difference(".* bytesOnDisk", "None", r"\d+"),
    "sizes of collections": Difference(".* (min|max|total)Children", r"\d+", r"\d+000", ("4.0.1",)),
    "dictionaries": Difference("encoding .*", "DIRECT_V2", "DICTIONARY_V2"),
}


@pytest.fixture(scope="module")
def files(hive: RealHive, client: MetastoreClient, module_database: str) -> dict[str, Path]:
    """The same rows in a file of ours, in one of ours that was joined of two spills, and in one of Hive's."""
    for name in ("ours", "joined", "its"):
        client.create_table(f"{module_database}.{name}", columns=streamed.COLUMNS, properties=orc_properties(hive))
    for name, parts in (("ours", [ROWS]), ("joined", [ROWS[:20], ROWS[20:]])):
        table = client.get_table(f"{module_database}.{name}")
        with streamed.connect(client, table.name) as conn, conn.transaction():
            for ids in parts:
                conn.write(streamed.batch(table, ids))
                conn.flush()
    hive.sql(f"insert into {module_database}.its select * from {module_database}.ours")
    found = {}
    for name in ("ours", "joined", "its"):
        [found[name]] = folder_of(client.get_table(f"{module_database}.{name}")).glob("delta_*/bucket_*")
    return found


def differences(ours: dict[str, str], its: dict[str, str]) -> dict[str, tuple[str, str]]:
    pairs = {key: (ours.get(key, "None"), its.get(key, "None")) for key in ours.keys() | its.keys()}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def explanation(key: str, ours: str, its: str, version: str) -> str | None:
    """The row of the table that explains it."""
    for name, known in DIFFERENCES.items():
        patterns = (known.keys, known.ours, known.its)
        fits = (re.fullmatch(pattern, text) for pattern, text in zip(patterns, (key, ours, its), strict=True))
        if version in known.versions and all(fits):
            return name
    return None


def test_a_file_differs_from_hives_only_as_the_documentation_says(hive: RealHive, files: dict[str, Path]) -> None:
    found = differences(described(hive, files["ours"]), described(hive, files["its"]))
    names = {key: explanation(key, *pair, hive.version) for key, pair in found.items()}
    assert {key: found[key] for key, name in names.items() if name is None} == {}
    assert set(names.values()) == {name for name, known in DIFFERENCES.items() if hive.version in known.versions}


def test_a_file_joined_from_spills_has_the_metadata_of_one_written_at_once(
    hive: RealHive, files: dict[str, Path]
) -> None:
    found = differences(described(hive, files["joined"]), described(hive, files["ours"]))
    found = {key: pair for key, pair in found.items() if not key.startswith("stripe ")}
    assert found == {
        "stripes": ("2", "1"),
        "file statistics row.b sum": ("None", "-9223372036854775757"),  # that of one spill overflows
        "metadata hive.acid.key.index": ("1,536870912,19;1,536870912,49;", "1,536870912,49;"),
    }


def test_the_documentation_lists_every_difference() -> None:
    _, _, section = DESIGN.read_text("utf-8").partition("### Compared with Hive's own")
    table = section.partition("\n## ")[0]
    assert re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE) == ["what", *DIFFERENCES]
