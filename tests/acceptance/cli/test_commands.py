"""`hive-ingest` from the shell: what each command prints, and how it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import DataOperationType, LockComponent, LockLevel, LockRequest, LockType, TxnType
from hive_ingest.reader import scan
from tests.acceptance.cli.shell import Shell, records
from tests.support.metastores import connect_in
from tests.support.store_path import copy_tree
from tests.support.tables import table_folder

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def client(alerts: Shell, metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, metastore_uri) as client:
        yield client


# -- create-table ------------------------------------------------------------------------------------


def test_create_table_creates_what_it_is_given(client: MetastoreClient) -> None:
    table = client.get_table("web.alerts")
    assert [(c.name, c.type) for c in table.columns] == [("id", "int"), ("msg", "string"), ("at", "timestamp")]
    assert [key.name for key in table.partition_keys] == ["continent", "country"]
    assert (table.bucket_columns, table.num_buckets) == (("id",), 4)
    assert table.properties["orc.compress"] == "ZLIB"
    assert table.is_transactional


@pytest.mark.only_on(["sqlite", "postgres", "hive313"], because="Hive 4 keeps a managed table in its database's folder")
def test_create_table_takes_a_location_and_types_with_colons(shell: Shell, tmp_path: Path) -> None:
    output = shell.done(
        "create-table",
        "--create-metastore",
        "default.t",
        "--column",
        "s:struct<a:int,b:string>",
        "--location",
        tmp_path / "elsewhere",
    )
    assert output.out == f"default.t at file:{tmp_path}/elsewhere\n"


def test_create_table_again_is_an_error_unless_it_is_allowed(alerts: Shell) -> None:
    again = alerts("create-table", "--create-metastore", "web.alerts", "--column", "id:int")
    assert (again.code, again.out) == (1, "")
    assert again.err.startswith("error: ")
    assert "--if-not-exists" in again.err
    assert "=True" not in again.err
    same = ("--column", "id:int", "--column", "msg:string", "--column", "at:timestamp")
    keys = ("--partition-key", "continent:string", "--partition-key", "country:string")
    buckets = ("--bucket-column", "id", "--num-buckets", "4")
    alerts.done("create-table", "web.alerts", "--if-not-exists", *same, *keys, *buckets)
    other = alerts("create-table", "web.alerts", "--if-not-exists", "--column", "id:bigint", *keys, *buckets)
    assert (other.code, other.out) == (1, "")
    assert "to be created with --if-not-exists: its column 'id' is int, not bigint" in other.err


def test_create_table_does_not_create_a_database(shell: Shell) -> None:
    assert shell("create-table", "--create-metastore", "nowhere.t", "--column", "id:int").code == 1


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--column", "id"],
        ["--column", ":int"],
        ["--column", "id:"],
        ["--column", "id:int", "--column", "id:string"],
        ["--column", "id:int", "--property", "novalue"],
        ["--column", "id:int", "--num-buckets", "4"],
        ["--column", "id:int", "--bucket-column", "id"],
        ["--column", "id:int", "--bucket-column", "id", "--num-buckets", "0"],
        ["--column", "id:int", "--no-such-option"],
    ],
    ids=" ".join,
)
def test_a_usage_error_exits_with_2_and_changes_nothing(wrong: list[str], shell: Shell, tmp_path: Path) -> None:
    outcome = shell("create-table", "--create-metastore", "default.t", *wrong)
    assert outcome.code == 2
    assert "Usage:" in outcome.err
    assert list(tmp_path.iterdir()) == []


# -- read --------------------------------------------------------------------------------------------


def test_read_prints_one_snapshot_in_three_forms(alerts: Shell, client: MetastoreClient, tmp_path: Path) -> None:
    alerts.done("ingest", "web.alerts", records(tmp_path / "a.json", 2))
    assert alerts.done("read", "web.alerts", "--output", "csv", "--where", "id = 1").out == (
        "id,msg,at,continent,country\n1,m1,2013-01-01 05:00:00.5,Asia,Jp\n"
    )
    (row,) = alerts.done("read", "web.alerts", "-o", "json", "--where", "country = 'In'", "--row-ids").rows
    (row_id,) = hi.read_table(client, "web.alerts", filter=pc.field("id") == 0, row_ids=True)["row__id"].to_pylist()
    assert row == {
        "id": 0,
        "msg": "m0",
        "at": "2013-01-01 05:00:00.5",
        "continent": "Asia",
        "country": "In",
        "row__id": row_id,
    }
    table = alerts.done("read", "web.alerts", "--columns", "msg,id").out.splitlines()
    assert table[0].split() == ["msg", "id"]
    assert sorted(line.split()[0] for line in table[2:4]) == ["m0", "m1"]


def test_json_printed_by_read_can_be_ingested_again(shell: Shell, tmp_path: Path) -> None:
    columns = {
        "i": "int", "d": "decimal(5,2)", "s": "string", "b": "binary", "day": "date", "at": "timestamp",
        "f": "double", "ok": "boolean", "l": "array<timestamp>", "m": "map<string,date>",
        "r": "struct<x:int,y:array<decimal(3,1)>>",
    }  # fmt: skip
    options = [f"--column={name}:{type_}" for name, type_ in columns.items()]
    shell.done("create-table", "--create-metastore", "default.one", *options)
    shell.done("create-table", "--create-metastore", "default.two", *options)
    record = {
        "i": 1, "d": "1.50", "s": "ü\n", "b": "AAH/", "day": "0001-01-01", "at": "2262-01-01 00:00:00.123456789",
        "f": 1.5, "ok": True, "l": ["1970-01-01 00:00:00", None], "m": {"k": "2013-01-01"},
        "r": {"x": None, "y": ["1.5"]},
    }  # fmt: skip
    source = tmp_path / "source.json"
    source.write_text(json.dumps(record) + "\n" + '{"i": null}\n')
    shell.done("ingest", "default.one", source)
    copy = tmp_path / "copy.json"
    copy.write_text(shell.done("read", "default.one", "-o", "json").out)
    shell.done("ingest", "default.two", copy, "--unknown-fields", "fail")
    assert shell.done("read", "default.two", "-o", "json").out == copy.read_text()
    assert json.loads(copy.read_text().splitlines()[0])["b"] == "AAH/"


def test_read_shows_20_rows_and_says_that_there_are_more(alerts: Shell, tmp_path: Path) -> None:
    alerts.done("ingest", "web.alerts", records(tmp_path / "a.json", 30))
    cut = alerts.done("read", "web.alerts")
    assert len(cut.out.splitlines()) == 22
    assert cut.err == "the first 20 rows; --limit N shows more\n"
    whole = alerts.done("read", "web.alerts", "--limit", "30")
    assert (len(whole.out.splitlines()), whole.err) == (32, "")
    assert len(alerts.done("read", "web.alerts", "--limit", "0", "-o", "json").rows) == 0
    assert len(alerts.done("read", "web.alerts", "-o", "json").rows) == 30


def test_a_read_that_stops_early_leaves_no_transaction_open(alerts: Shell, tmp_path: Path) -> None:
    alerts.done("ingest", "web.alerts", records(tmp_path / "a.json", 30))
    alerts.done("read", "web.alerts", "--limit", "1")
    assert [row for row in alerts.done("show", "transactions", "-o", "json").rows if row["state"] == "open"] == []


# -- show and abort ----------------------------------------------------------------------------------


@pytest.mark.only_on(["sqlite", "postgres"], because="Hive does not tell the agent of a transaction")
def test_show_transactions_marks_readers_old_ones_and_owners(alerts: Shell, client: MetastoreClient) -> None:
    (old,) = client.open_txns(1, agent_info="forgotten")
    with (
        scan(client, "web.alerts", agent_info="a reader"),
        StreamingConnection.connect(
            client, database="web", table="alerts", record_writer=hi.StrictJsonWriter(), agent_info="a writer"
        ) as writer,
    ):
        writer.begin_transaction()
        rows = alerts.done("show", "transactions", "-o", "json", "--old-minutes", "0").rows
        of_table = alerts.done("show", "transactions", "web.alerts", "-o", "json").rows
    assert [(row["owner"], row["kind"], row["state"]) for row in rows] == [
        ("forgotten", "default", "open"),
        ("a reader", "reader", "open"),
        ("a writer", "default", "open"),
    ]
    assert rows[0]["txn"] == old
    assert all(str(row["remark"]).startswith("OLD: ") for row in rows)
    assert [(row["owner"], row["remark"]) for row in of_table] == [("a reader", ""), ("a writer", "")]


@pytest.mark.only_on(["sqlite", "postgres"], because="Hive keeps no reason")
def test_abort_ends_a_transaction_and_its_reason_is_shown(alerts: Shell, client: MetastoreClient) -> None:
    (txn,) = client.open_txns(1)
    assert alerts.done("abort", str(txn)).out == f"transaction {txn} is aborted\n"
    (row,) = [row for row in alerts.done("show", "transactions", "-o", "json").rows if row["txn"] == txn]
    assert row["state"] == "aborted"
    assert str(row["remark"]).startswith("hive-ingest abort by ")


def test_abort_continues_after_one_that_it_cannot_abort(alerts: Shell, client: MetastoreClient) -> None:
    (txn,) = client.open_txns(1, txn_type=TxnType.READ_ONLY)
    outcome = alerts("abort", "4711", str(txn))
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert "4711" in outcome.err
    assert outcome.out == f"transaction {txn} is aborted\n"


def test_a_dry_run_of_abort_says_whose_transactions_would_end(alerts: Shell, client: MetastoreClient) -> None:
    (txn,) = client.open_txns(1)
    (info,) = client.get_open_txns_info().transactions
    outcome = alerts("abort", str(txn), "4711", "--dry-run")
    assert outcome.out.startswith(f"would abort transaction {txn} of {info.user}@{info.hostname}")
    assert (outcome.code, outcome.err) == (1, "error: transaction 4711 is not open\n")
    assert client.get_valid_txns().open == (txn,)
    assert alerts.done("abort", str(txn), "--dry-run").err == ""


def test_show_locks_shows_who_waits_for_whom(alerts: Shell, client: MetastoreClient) -> None:
    locks = []
    for _ in range(2):
        (txn,) = client.open_txns(1)
        component = LockComponent(
            LockType.EXCLUSIVE, LockLevel.TABLE, "web", "alerts", operation_type=DataOperationType.UPDATE
        )
        request = LockRequest((component,), txn, user="me", hostname="here", agent_info="agent")
        locks.append(client.lock(request).lock_id)
    holder, waiter = alerts.done("show", "locks", "web.alerts", "-o", "json").rows
    assert (holder["lock"], holder["state"], holder["blocked_by"]) == (f"{locks[0]}.1", "acquired", None)
    assert (waiter["state"], waiter["blocked_by"]) == ("waiting", f"{locks[0]}.1")
    assert (waiter["table"], waiter["type"], waiter["owner"]) == ("web.alerts", "exclusive", "agent")
    assert [row["lock"] for row in alerts.done("show", "locks", "-o", "json").rows] == [holder["lock"], waiter["lock"]]


def test_show_locks_names_the_sources_of_a_sink(alerts: Shell, client: MetastoreClient, tmp_path: Path) -> None:
    alerts.done("ingest", "web.alerts", records(tmp_path / "a.json", 1))
    path = str(tmp_path / "a.json")
    with StreamingConnection.connect(
        client, table="web.alerts", record_writer=hi.StrictJsonWriter(), sink="alerts", sources=[path, "b.json"]
    ) as connection:
        connection.begin_transaction()
        rows = alerts.done("show", "locks", "web.alerts__progress", "-o", "json").rows
    locks = {row["partition"] for row in rows if row["type"] == "excl_write"}
    assert len(locks) == 2
    assert f"source={path}" in locks


def test_a_command_that_waits_says_for_whom(
    alerts: Shell, client: MetastoreClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (txn,) = client.open_txns(1)
    component = LockComponent(
        LockType.EXCLUSIVE, LockLevel.TABLE, "web", "alerts", operation_type=DataOperationType.UPDATE
    )
    client.lock(LockRequest((component,), txn, user="me", hostname="here", agent_info="agent"))
    monkeypatch.setattr("hive_ingest.metastore_client.wait_log._FIRST_SECONDS", 0)
    monkeypatch.setenv("HIVE_INGEST_LOCK_WAIT_SECONDS", "0.1")
    outcome = alerts("ingest", "web.alerts", records(tmp_path / "a.json", 1))
    assert outcome.code == 1
    waiting, error = outcome.err.splitlines()
    assert waiting.startswith("waiting for locks on web.alerts, 0 s so far: ")
    assert f"transaction {txn} of me@here (agent) holds EXCLUSIVE on web.alerts since" in waiting
    assert "within HIVE_INGEST_LOCK_WAIT_SECONDS=0.1: " in error


def test_show_partitions_lists_them_with_their_folders(alerts: Shell, tmp_path: Path) -> None:
    alerts.done("ingest", "web.alerts", records(tmp_path / "a.json", 2))
    rows = alerts.done("show", "partitions", "web.alerts", "-o", "json").rows
    assert [row["partition"] for row in rows] == ["continent=Asia/country=In", "continent=Asia/country=Jp"]
    assert all(Path(str(row["location"]).removeprefix("file:")).is_dir() for row in rows)


def test_show_deltas_distinguishes_read_small_open_aborted_and_obsolete(
    alerts: Shell, client: MetastoreClient, tmp_path: Path
) -> None:
    alerts.done("create-table", "--create-metastore", "web.plain", "--column", "id:int")
    for rows in (1, 10, 10_000):
        hi.append(client, "web.plain", pa.table({"id": pa.array(range(rows), pa.int32())}))
    folder = table_folder(client, "plain")
    copy_tree(folder / "delta_0000002_0000002_0000", folder / "base_0000002")
    opened = client.open_txns(2)
    for txn_id, write_id in (
        (pair.txn_id, pair.write_id) for pair in client.allocate_table_write_ids("web.plain", opened)
    ):
        copy_tree(folder / "delta_0000001_0000001_0000", folder / f"delta_{write_id:07d}_{write_id:07d}_0000")
        if txn_id == opened[1]:
            client.abort_txn(txn_id)
    (row,) = alerts.done("show", "deltas", "web.plain", "-o", "json", "--rows", "--small-mib", "0.001").rows
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert row == {
        "partition": "",
        "base": "base_0000002",
        "deltas": 1,
        "delete_deltas": 0,
        "small": 0,
        "open": 1,
        "aborted": 1,
        "obsolete": 2,
        "bytes": size,
        "rows": 10_010,
    }
    (row,) = alerts.done("show", "deltas", "web.plain", "-o", "json").rows
    assert row["small"] == 1
    assert "rows" not in row


def test_show_deltas_without_a_table_shows_all_of_them(alerts: Shell, tmp_path: Path) -> None:
    alerts.done("ingest", "web.alerts", records(tmp_path / "a.json", 2))
    rows = alerts.done("show", "deltas", "-o", "json").rows
    assert [(row["table"], row["partition"], row["deltas"]) for row in rows] == [
        ("web.alerts", "continent=Asia/country=In", 1),
        ("web.alerts", "continent=Asia/country=Jp", 1),
        ("web.alerts__progress", "", 1),
    ]


# -- how it fails ------------------------------------------------------------------------------------

URI = "postgresql+psycopg://me:s%40cret@127.0.0.1:1/db"


@pytest.mark.parametrize(
    "command",
    [
        ["read", "web.nowhere"],
        ["read", "web.alerts", "--where", "month = 3"],
        ["read", "web.alerts", "--columns", "nowhere"],
        ["read", "not a name"],
        ["ingest", "web.nowhere", "/dev/null"],
        ["ingest", "web.alerts", "/nowhere.json"],
        ["ingest", "web.alerts", "/dev/null", "--sink", "Not A Sink"],
        ["ingest", "web.alerts", "/dev/null", "--format", "delimited", "--field-delimiter", "||"],
        ["show", "partitions", "web.nowhere"],
        ["show", "deltas", "web.nowhere"],
        ["abort", "4711"],
        ["show", "locks", "--metastore", "sqlite:////nowhere/metastore.db"],
        ["show", "locks", "--metastore", "mysql://me:s%40cret@host/db"],
        ["show", "locks", "--metastore", URI],
        ["show", "locks", "--metastore", URI, "--warehouse", "{tmp}"],
    ],
    ids=" ".join,
)
def test_every_failure_is_one_line_and_exit_code_1(command: list[str], alerts: Shell, tmp_path: Path) -> None:
    outcome = alerts(*(word.replace("{tmp}", str(tmp_path)) for word in command))
    assert (outcome.code, outcome.out) == (1, "")
    assert len(outcome.err.splitlines()) == 1, outcome.err
    assert outcome.err.startswith("error: ")
    assert "Traceback" not in outcome.err
    assert "cret" not in outcome.err


def test_a_traceback_is_shown_on_demand_without_passwords(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("show", "locks", "--metastore", URI, "--warehouse", str(tmp_path))
    by_option = shell("--debug", *command)
    monkeypatch.setenv("HIVE_INGEST_DEBUG", "1")
    by_environment = shell(*command)
    for outcome in (by_option, by_environment):
        assert outcome.code == 1
        assert "Traceback" in outcome.err
        assert "cret" not in outcome.err


def test_a_call_without_a_metastore_is_a_usage_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIVE_INGEST_METASTORE")
    outcome = shell("show", "locks")
    assert outcome.code == 2
    assert "HIVE_INGEST_METASTORE" in outcome.err


@pytest.mark.only_on(["sqlite", "postgres"], because="a real one is there")
def test_read_commands_never_create_a_metastore(shell: Shell, tmp_path: Path) -> None:
    outcome = shell("show", "locks")
    assert outcome.code == 1
    assert "create one there with `hive-ingest create-table --create-metastore`" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_the_warehouse_can_be_named(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_INGEST_WAREHOUSE", str(tmp_path / "one"))
    create = ("create-table", "--create-metastore", "--create-database", "--column", "id:int")
    assert f"file:{tmp_path}/one/a.db/t" in shell.done(*create, "a.t").out
    assert f"file:{tmp_path}/one/b.db/t" in shell.done(*create, "b.t", "--warehouse", tmp_path / "one").out


@pytest.mark.only_on(["sqlite", "postgres"], because="a real one has a warehouse of its own")
def test_another_warehouse_than_the_metastores_is_refused_in_the_words_of_the_command(
    alerts: Shell, tmp_path: Path
) -> None:
    outcome = alerts("show", "locks", "--warehouse", tmp_path / "two")
    assert outcome.code == 1
    assert f"has the warehouse 'file:{tmp_path}/warehouse', and --warehouse='file:{tmp_path}/two' was" in outcome.err


@pytest.mark.only_on(["sqlite"], because="the metastore is a file")
def test_the_warehouse_lies_beside_the_metastore_unless_it_is_named(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HIVE_INGEST_WAREHOUSE")
    output = shell.done("create-table", "--create-metastore", "--create-database", "--column", "id:int", "c.t")
    assert f"file:{tmp_path}/warehouse/c.db/t" in output.out


def test_conditions_given_one_by_one_hold_together(alerts: Shell, tmp_path: Path) -> None:
    """The last one alone was used."""
    alerts.done("ingest", "web.alerts", records(tmp_path / "a.json", 10), "--format", "json")
    found = alerts.done("read", "web.alerts", "--where", "id > 3", "--where", "id < 6 or id = 2", "-o", "json").rows
    assert sorted(int(str(row["id"])) for row in found) == [4, 5]


def test_help_names_every_command(shell: Shell) -> None:
    output = "".join(shell.done(*group, "--help").out for group in ((), ("show",), ("sinks",)))
    names = "create-table ingest read show abort transactions locks partitions deltas sinks list adopt"
    for command in names.split():
        assert command in output


def test_the_version_is_that_of_the_package() -> None:
    output = subprocess.run(
        [sys.executable, "-m", "hive_ingest.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert output.stdout == f"hive-ingest {hi.__version__}\n"


def test_importing_the_command_line_loads_nothing_that_help_does_not_need() -> None:
    code = "import sys, hive_ingest.cli; print(sorted({'sqlalchemy', 'typer', 'rich', 'psycopg'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout == "[]\n"
    code = "import sys, hive_ingest.cli.app; print('sqlalchemy' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout == "False\n"


def test_a_closed_output_pipe_gives_no_traceback(alerts: Shell, metastore_uri: str, tmp_path: Path) -> None:
    alerts.done("ingest", "web.alerts", records(tmp_path / "a.json", 5_000))
    output = subprocess.run(
        f"{sys.executable} -m hive_ingest.cli read web.alerts -o json | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (len(output.stdout.splitlines()), output.stderr) == (1, "")
