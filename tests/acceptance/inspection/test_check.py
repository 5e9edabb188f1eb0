"""`check_table` finds nothing in a healthy table, and names what is broken in any other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.acid import ACID_VERSION_FILE, encode_bucket
from hive_ingest.errors import NoSuchObject, UnsupportedFeature
from hive_ingest.inspection import Severity, TableCheck, check_table
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnState
from hive_ingest.transactions import new_staging
from tests.support.acid_files import TableOnDisk, write_acid_file
from tests.support.compactions import MAJOR, MINOR, Compacted, connect_quietly
from tests.support.hive_tables import TABLES, register, unpack_all
from tests.support.metastores import connect_in

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="delete events are written and compacted here"),
    pytest.mark.one_embedded,
]

#: Years that nanoseconds cannot hold: the reader refuses them.
UNREADABLE = {"3.1.3/far", "4.0.1/far"}


@pytest.fixture
def client(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_quietly(tmp_path, metastore_uri) as client:
        yield client


@pytest.fixture
def parts(client: MetastoreClient) -> Compacted:
    table = Compacted(client, partition_keys={"part": "string"})
    table.inserts(1, 3, part="a")
    table.insert(4, 5, 6, part="b")
    write_id = table.delete(table.row_id(2), part="a")
    (table.place("a") / f"delete_delta_{write_id:07d}_{write_id:07d}_0000" / ACID_VERSION_FILE).write_bytes(b"2")
    return table


@pytest.fixture
def on_disk(client: MetastoreClient) -> TableOnDisk:
    client.create_database("web")
    return TableOnDisk(client, "web.d", {"id": "int"})


def rows(*ids: int) -> pa.Array:
    return pa.array([{"id": i} for i in ids], pa.struct([("id", pa.int32())]))


def found(check: TableCheck, least: Severity = Severity.WARNING) -> list[tuple[str, str]]:
    """The rules that are broken, and the names of the files or folders."""
    severities = {Severity.ERROR, Severity.WARNING, *([Severity.NOTE] if least is Severity.NOTE else [])}
    return [(each.rule, each.place.rpartition("/")[2]) for each in check.findings if each.severity in severities]


# -- healthy tables ----------------------------------------------------------------------------------


def test_a_healthy_table_has_no_finding_at_any_time(parts: Compacted, client: MetastoreClient) -> None:
    for kind in (None, MINOR, MAJOR):
        if kind is not None:
            parts.compact(kind, part="a")
            parts.clean()
        check = check_table(client, parts.name)
        assert check.findings == ()
        assert check.is_healthy
    assert (check.partitions, check.files, check.rows) == (2, 2, 5)
    assert [info for info in client.get_open_txns_info().transactions if info.state is TxnState.OPEN] == []


def test_a_table_of_every_type_with_many_stripes_is_healthy(client: MetastoreClient) -> None:
    columns = {"i": "bigint", "s": "varchar(9)", "c": "char(4)", "d": "date", "n": "decimal(9,2)", "f": "double"}
    columns |= {"t": "timestamp", "b": "boolean", "a": "array<string>", "o": "struct<x:int,y:string>"}
    client.create_database("web")
    client.create_table("web.m", columns=columns, bucket_columns=["i"], num_buckets=2)
    data = [
        {
            "i": i,
            "s": None if i % 5 else f"s{i}",
            "c": "ab ",
            "d": f"20{i % 90 + 10}-01-01",
            "n": f"{i}.25",
            "f": float("nan") if i % 7 else -i / 3,
            "t": f"2026-01-01 00:00:{i % 60:02d}",
            "b": i % 2 == 0,
            "a": [f"{i}"] * (i % 3),
            "o": {"x": i, "y": "z"} if i % 4 else None,
        }
        for i in range(20_000)
    ]
    lines = [json.dumps(row).replace("NaN", "1.5") for row in data]
    settings = {"stripe_size_bytes": 64 << 10, "spill_chunk_bytes": 100_000}
    with (
        hi.StreamingConnection.connect(
            client, table="web.m", record_writer=hi.StrictJsonWriter(), settings=settings
        ) as connection,
        connection.transaction(),
    ):
        connection.write(lines)
    check = check_table(client, "web.m")
    assert (check.findings, check.rows, check.files) == ((), 20_000, 2)


@pytest.fixture(scope="session")
def tables_of_hive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_all(tmp_path_factory.mktemp("hive_tables"))


@pytest.mark.parametrize("key", sorted(set(TABLES) - UNREADABLE))
def test_what_hive_wrote_is_healthy(metastore_uri: str, tmp_path: Path, tables_of_hive: Path, key: str) -> None:
    with connect_in(tmp_path, metastore_uri) as client:
        client.create_database("h")
        check = check_table(client, register(client, tables_of_hive, key))
    assert found(check) == []
    assert check.rows >= len(TABLES[key]["rows"])


@pytest.mark.parametrize("key", sorted(UNREADABLE))
def test_columns_that_cannot_be_read_are_named(
    metastore_uri: str, tmp_path: Path, tables_of_hive: Path, key: str
) -> None:
    with connect_in(tmp_path, metastore_uri) as client:
        client.create_database("h")
        check = check_table(client, register(client, tables_of_hive, key))
    assert {rule for rule, _ in found(check)} == {"columns"}


# -- damaged files -----------------------------------------------------------------------------------


def flip(place: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:place] + bytes([content[place] ^ 0x40]) + content[place:][1:]


@pytest.mark.parametrize("change", [flip(10), flip(-150), lambda content: content[:-100], lambda content: b"no ORC"])
@pytest.mark.parametrize("folder", ["delta", "delete_delta"])
@pytest.mark.parametrize("decode_rows", [True, False])
def test_a_damaged_file_is_named_and_the_others_are_checked(
    parts: Compacted, client: MetastoreClient, change: Callable[[bytes], bytes], folder: str, decode_rows: bool
) -> None:
    (path, *_) = sorted(parts.place("a").glob(f"{folder}*/bucket_*"))
    path.write_bytes(change(path.read_bytes()))
    check = check_table(client, parts.name, decode_rows=decode_rows)
    assert found(check) == [("content", "bucket_00000")]
    assert [each.place for each in check.findings] == [str(path)]
    assert not check.is_healthy
    assert check.files == 5
    assert check_table(client, parts.name, where="part = 'b'").is_healthy


def test_a_change_that_no_column_needs_is_found_in_a_large_file(client: MetastoreClient) -> None:
    client.create_database("web")
    client.create_table("web.big", columns={"text": "string"}, properties={"orc.compress": "NONE"})
    hi.append(client, "web.big", pa.table({"text": [f"{i:0100}" for i in range(20_000)]}))
    (path,) = (Path(client.get_table("web.big").location.removeprefix("file:"))).glob("delta*/bucket_*")
    assert path.stat().st_size > 1 << 20
    path.write_bytes(flip(5)(path.read_bytes()))  # in the first row index
    assert found(check_table(client, "web.big", decode_rows=False)) == [("content", "bucket_00000")]


# -- names and folders -------------------------------------------------------------------------------


def delta(table: Compacted, number: int, part: str = "a") -> Path:
    return table.place(part) / f"delta_{number:07d}_{number:07d}_0000"


def bucket(table: Compacted, number: int, name: str = "bucket_00000") -> Path:
    return delta(table, number) / name


def put(path: Path, content: bytes = b"x") -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: put(t.place("a") / "notes.txt"), ("names", "notes.txt")),
        (lambda t: (t.place("a") / "delta_x").mkdir(), ("names", "delta_x")),
        (lambda t: put(delta(t, 1) / "bucket_x"), ("names", "bucket_x")),
        (lambda t: (delta(t, 1) / "inner").mkdir(), ("names", "inner")),
        (lambda t: (delta(t, 1) / "_orc_acid_version").unlink(), ("version file", delta)),
        (lambda t: put(delta(t, 1) / "_orc_acid_version", b"1"), ("version file", "_orc_acid_version")),
        (lambda t: (delta(t, 1) / "bucket_00000").rename(delta(t, 1) / "bucket_00003"), ("bucket", "bucket_00003")),
        (
            lambda t: shutil.copy(delta(t, 1) / "bucket_00000", delta(t, 2) / "bucket_00001"),
            ("content", "bucket_00001"),
        ),
        (
            lambda t: shutil.copy(delta(t, 1) / "bucket_00000", delta(t, 1) / "bucket_00000_1"),
            ("row ids", "bucket_00000_1"),
        ),
        (lambda t: delta(t, 1).rename(t.place("a") / "delta_0000001_0000001_0007"), ("bucket", "bucket_00000")),
        (lambda t: shutil.rmtree(t.place("b")), ("folders", "part=b")),
    ],
)
def test_a_name_or_place_that_breaks_a_rule_is_found(
    parts: Compacted, client: MetastoreClient, change: Callable[[Compacted], object], expected: tuple[str, object]
) -> None:
    change(parts)
    rule, place = expected
    if callable(place):
        place = delta(parts, 1).name
    assert (rule, place) in found(check_table(client, parts.name))


def test_a_folder_that_the_metastore_does_not_know_is_found(parts: Compacted, client: MetastoreClient) -> None:
    unknown = parts.place("a") / "delta_0000099_0000099_0000"
    shutil.copytree(delta(parts, 1), unknown)
    shutil.copytree(parts.place("b"), parts.place("c"))
    (parts.place("c") / "delta_0000004_0000004_0000").rename(parts.place("c") / "delta_0000098_0000098_0000")
    check = check_table(client, parts.name)
    assert ("write ids known", unknown.name) in found(check)
    assert [each.rule for each in check.findings if "part=c" in each.message] == ["partitions known"]
    assert any("hive-ingest repair" in each.message for each in check.findings)


def test_a_partition_that_nobody_reads_is_a_warning(parts: Compacted, client: MetastoreClient) -> None:
    shutil.copytree(parts.place("b"), parts.place("c"))
    check = check_table(client, parts.name)
    assert [(each.severity, each.rule) for each in check.findings] == [(Severity.WARNING, "partitions known")]
    assert check.findings[0].place.endswith("/part=c")
    assert "nobody reads its rows" in check.findings[0].message


def test_leftovers_are_notes(parts: Compacted, client: MetastoreClient) -> None:
    parts.aborted_insert(9, part="a")
    aborted = parts.folders("a")[-1]
    parts.insert(10, part="b")
    parts.compact(MAJOR, part="b")
    hidden = staged_by_an_ended_transaction(parts, client)
    check = check_table(client, parts.name)
    assert check.is_healthy
    notes = found(check, Severity.NOTE)
    assert {("leftovers", name) for name in (aborted, hidden.name, delta(parts, 4).name)} <= set(notes)


def staged_by_an_ended_transaction(table: Compacted, client: MetastoreClient) -> Path:
    (txn_id,) = client.open_txns()
    staging = new_staging(client.get_table(table.name), txn_id, client.metastore_id)
    client.abort_txn(txn_id)
    path = Path(f"{staging.path}.0.orc")
    put(path)
    return path


def test_overlapping_deltas_are_found(on_disk: TableOnDisk, client: MetastoreClient) -> None:
    for number in range(1, 5):
        assert on_disk.commit() == number
    on_disk.insert(2, rows(1), folder="delta_0000001_0000003")
    on_disk.insert(3, rows(2), folder="delta_0000002_0000004")
    assert ("overlap", "delta_0000002_0000004") in found(check_table(client, on_disk.name))


# -- rows --------------------------------------------------------------------------------------------

BUCKET = encode_bucket(0)


@pytest.mark.parametrize(
    ("ids", "options", "rule"),
    [
        ([(1, BUCKET, 1), (1, BUCKET, 0)], {}, "key order"),
        ([(1, BUCKET, 0), (1, BUCKET, 0)], {}, "key order"),
        ([(1, BUCKET, 0), (1, BUCKET, 2)], {}, "row ids"),
        ([(1, BUCKET, 1), (1, BUCKET, 2)], {}, "row ids"),
        ([(1, encode_bucket(1), 0), (1, encode_bucket(1), 1)], {}, "bucket"),
        ([(1, encode_bucket(0, 3), 0), (1, encode_bucket(0, 3), 1)], {}, "bucket"),
        ([(1, 0, 0), (1, 0, 1)], {}, "bucket"),
        ([(1, BUCKET, 0), (1, BUCKET, 1)], {"operation": 1}, "operation"),
        ([(1, BUCKET, 0), (1, BUCKET, 1)], {"current": [2, 2]}, "content"),
    ],
)
def test_rows_that_break_a_rule_are_found(
    on_disk: TableOnDisk,
    client: MetastoreClient,
    ids: list[tuple[int, int, int]],
    options: dict[str, object],
    rule: str,
) -> None:
    on_disk.commit()
    write_acid_file(
        on_disk.path / "delta_0000001_0000001_0000/bucket_00000", ids, rows=rows(*range(len(ids))), **options
    )
    broken = found(check_table(client, on_disk.name))
    assert (rule, "bucket_00000") in broken
    assert {each for each, _ in broken} <= {rule, "version file", "row ids", "write ids"}


def test_row_ids_that_two_files_share_are_found(on_disk: TableOnDisk, client: MetastoreClient) -> None:
    on_disk.commit()
    on_disk.insert(1, rows(1, 2), folder="base_0000001")
    (on_disk.path / "base_0000001/bucket_00000").rename(on_disk.path / "base_0000001/bucket_00000_0")
    write_acid_file(on_disk.path / "base_0000001/bucket_00000_1", [(1, BUCKET, 1), (1, BUCKET, 5)], rows=rows(3, 4))
    check = check_table(client, on_disk.name)
    assert ("row ids", "bucket_00000_1") in found(check)
    assert any("1 row have the same ids" in each.message or "1 row has" in each.message for each in check.findings)


def test_columns_in_another_order_are_found(on_disk: TableOnDisk, client: MetastoreClient) -> None:
    on_disk.commit()
    on_disk.insert(1, pa.array([{"id": "x"}], pa.struct([("id", pa.string())])))
    assert ("columns", "bucket_00000") in found(check_table(client, on_disk.name))


# -- calls -------------------------------------------------------------------------------------------


def test_a_table_that_cannot_be_checked_is_an_error(client: MetastoreClient) -> None:
    client.create_database("web")
    client.create_table("web.plain", columns={"id": "int"}, properties={"EXTERNAL": "TRUE"})
    with pytest.raises(UnsupportedFeature):
        check_table(client, "web.plain")
    with pytest.raises(NoSuchObject):
        check_table(client, "web.nothing")
