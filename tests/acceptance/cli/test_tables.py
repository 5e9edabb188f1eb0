"""Commands about tables and the configuration: list, describe, change and drop."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_ingest.metastore_client import MetastoreClient
from tests.acceptance.cli.shell import Shell, records
from tests.support.metastores import connect_in
from tests.support.tables import table_folder

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def client(alerts: Shell, metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, metastore_uri) as client:
        yield client


@pytest.fixture
def filled(alerts: Shell, tmp_path: Path) -> Shell:
    alerts.done("ingest", "web.alerts", records(tmp_path / "a.json", 10))
    return alerts


# -- show and describe -------------------------------------------------------------------------------


def test_databases_and_tables_are_listed(filled: Shell, client: MetastoreClient) -> None:
    client.create_database("empty", comment="nothing yet")
    databases = {row["database"]: row for row in filled.done("show", "databases", "-o", "json").rows}
    assert {"empty", "web"} <= databases.keys()
    assert databases["empty"]["comment"] == "nothing yet"
    assert databases["web"]["location"] == client.get_database("web").location
    assert [row["database"] for row in filled.done("show", "databases", "--pattern", "w*", "-o", "json").rows] == [
        "web"
    ]

    listed = {row["table"]: row for row in filled.done("show", "tables", "-o", "json").rows}
    assert set(listed) == {"web.alerts", "web.alerts__progress"}
    assert listed["web.alerts"] == {
        "table": "web.alerts",
        "transactional": True,
        "columns": 3,
        "partition_keys": "continent, country",
        "buckets": "4 by id",
        "location": client.get_table("web.alerts").location,
    }
    assert filled.done("show", "tables", "empty", "-o", "json").rows == []
    assert len(filled.done("show", "tables", "WEB", "--pattern", "*s", "-o", "json").rows) == 2
    outcome = filled("show", "tables", "nowhere")
    assert (outcome.code, "'nowhere'" in outcome.err) == (1, True)


def test_a_table_is_described_with_its_size(filled: Shell, client: MetastoreClient) -> None:
    (found,) = filled.done("describe", "web.alerts", "-o", "json").rows
    assert found["columns"] == [
        {"name": name, "type": type_, "comment": None, "partition_key": is_key}
        for name, type_, is_key in [
            ("id", "int", False),
            ("msg", "string", False),
            ("at", "timestamp", False),
            ("continent", "string", True),
            ("country", "string", True),
        ]
    ]
    files = [path for path in table_folder(client, "alerts").rglob("bucket_*") if path.is_file()]
    assert (found["partitions"], found["rows"], found["delete_events"]) == (2, 10, 0)
    assert (found["files"], found["bytes"]) == (len(files), sum(path.stat().st_size for path in files))
    assert (found["bucket_columns"], found["num_buckets"]) == (["id"], 4)
    properties = found["properties"]
    assert isinstance(properties, dict)
    assert properties["orc.compress"] == "ZLIB"
    assert found["location"] == client.get_table("web.alerts").location

    text = filled.done("describe", "web.alerts").out
    for word in ("timestamp", "property orc.compress", "ZLIB", "bucket_columns", str(found["location"])):
        assert word in text
    (unsized,) = filled.done("describe", "web.alerts", "--no-sizes", "-o", "json").rows
    assert unsized == {name: value for name, value in found.items() if name not in _SIZES}
    assert filled("describe", "web.alerts", "-o", "csv").code == 2


_SIZES = ("partitions", "files", "bytes", "rows", "delete_events")


def test_a_table_that_is_not_transactional_is_described_without_a_size(alerts: Shell, client: MetastoreClient) -> None:
    client.create_table("web.plain", columns={"id": "int"}, properties={"EXTERNAL": "TRUE"})
    (found,) = alerts.done("describe", "web.plain", "-o", "json").rows
    assert (found["transactional"], found["type"], "rows" in found) == (False, "external_table", False)


# -- drop --------------------------------------------------------------------------------------------


def test_a_table_is_dropped_only_with_yes(filled: Shell, client: MetastoreClient) -> None:
    folder = table_folder(client, "alerts")
    refused = filled("drop-table", "web.alerts")
    assert refused.code == 2
    assert "--dry-run" in refused.err
    planned = filled.done("drop-table", "web.alerts", "--dry-run")
    assert planned.out.startswith("would drop web.alerts at ")
    assert "alerts" in client.get_tables("web")

    dropped = filled.done("drop-table", "web.alerts", "--yes")
    assert dropped.out.startswith("dropped web.alerts at ")
    assert (client.get_tables("web"), folder.exists()) == (["alerts__progress"], False)
    assert filled("drop-table", "web.alerts", "--yes").code == 1
    assert "nothing to do" in filled.done("drop-table", "web.alerts", "--yes", "--if-exists").out


def test_the_positions_of_a_dropped_tables_sinks_stay_or_go_with_it(
    filled: Shell, client: MetastoreClient, tmp_path: Path
) -> None:
    path = records(tmp_path / "a.json", 10)
    filled.done("create-table", "web.other", "--column", "id:int")
    filled.done("ingest", "web.other", path, "--sink", "elsewhere")
    filled.done("ingest", "web.alerts", path, "--sink", "again")
    planned = filled.done("drop-table", "web.alerts", "--drop-sinks", "--dry-run")
    assert [line.partition(",")[0] for line in planned.out.splitlines()[1:]] == [
        "would drop web.again__progress",
        "would drop web.alerts__progress",
    ]
    kept = filled.done("drop-table", "web.alerts", "--yes")
    assert "web.alerts__progress, the positions of a sink, is still there" in kept.err
    filled.done("create-table", "web.alerts", "--column", "id:int")
    refused = filled("ingest", "web.alerts", path)
    assert (refused.code, "drop web.alerts__progress" in refused.err) == (1, True)

    filled.done("drop-table", "web.alerts__progress", "--yes")
    filled.done("ingest", "web.alerts", path)
    dropped = filled.done("drop-table", "web.alerts", "--yes", "--drop-sinks")
    assert (len(dropped.out.splitlines()), dropped.err) == (2, "")
    assert client.get_tables("web") == ["again__progress", "elsewhere__progress", "other"]
    filled.done("create-table", "web.alerts", "--column", "id:int")
    filled.done("ingest", "web.alerts", path)
    assert len(filled.done("read", "web.alerts", "-o", "json").rows) == 10


def test_the_files_of_a_dropped_table_can_be_kept(filled: Shell, client: MetastoreClient) -> None:
    folder = table_folder(client, "alerts")
    filled.done("drop-table", "web.alerts", "--yes", "--keep-data")
    assert folder.exists()


def test_partitions_are_dropped_by_their_names(filled: Shell, client: MetastoreClient) -> None:
    names = ("continent=Asia/country=In", "continent=Asia/country=Jp")
    assert filled("drop-partition", "web.alerts", names[0]).code == 2
    for wrong in ("continent=Asia", "country=In/continent=Asia", "nothing"):
        assert filled("drop-partition", "web.alerts", names[0], wrong, "--yes").code != 0
    assert filled("drop-partition", "web.alerts", "continent=Asia/country=It", "--yes").code == 1
    assert filled.done("drop-partition", "web.alerts", *names, "--dry-run").out.count("would drop") == 2
    assert client.list_partition_names("web.alerts") == list(names)

    output = filled.done("drop-partition", "web.alerts", names[0], "--yes")
    assert output.out.startswith(f"dropped {names[0]} of web.alerts at ")
    assert client.list_partition_names("web.alerts") == [names[1]]
    filled.done("drop-partition", "web.alerts", *names, "--yes", "--if-exists")
    assert client.list_partition_names("web.alerts") == []


# -- alter -------------------------------------------------------------------------------------------


def test_columns_are_added(filled: Shell, client: MetastoreClient) -> None:
    columns = ("level:int", "tags:array<struct<a:int>>")
    assert "level int, tags" in filled.done("alter-table", "add-column", "web.alerts", *columns, "--dry-run").out
    assert len(client.get_table("web.alerts").columns) == 3
    output = filled.done("alter-table", "add-column", "web.alerts", *columns)
    assert output.out == "web.alerts: 2 columns added: level int, tags array<struct<a:int>>\n"
    again = filled("alter-table", "add-column", "web.alerts", "level:int")
    assert (again.code, "'level' already" in again.err) == (1, True)
    output = filled.done("alter-table", "add-column", "web.alerts", "level:int", "--if-not-exists")
    assert output.out == "web.alerts: 0 columns added\n"
    assert filled("alter-table", "add-column", "web.alerts", "level").code == 2


def test_columns_are_renamed_and_get_wider_types(filled: Shell, client: MetastoreClient) -> None:
    change = ("alter-table", "change-type", "web.alerts", "ID:bigint", "msg:string")
    assert filled.done(*change, "--dry-run").out == "would change web.alerts: id int -> id bigint\n"
    refused = filled(*change)
    assert (refused.code, "bucket" in refused.err) == (1, True)
    filled.done("alter-table", "add-column", "web.alerts", "level:int")
    done = filled.done("alter-table", "change-type", "web.alerts", "level:bigint")
    assert done.out == "web.alerts: level int -> level bigint\n"
    narrower = filled("alter-table", "change-type", "web.alerts", "level:int")
    assert (narrower.code, "wider type" in narrower.err) == (1, True)
    unknown = filled("alter-table", "change-type", "web.alerts", "country:int")
    assert (unknown.code, "it has id, msg, at, level" in unknown.err) == (2, True)

    assert "would change" in filled.done("alter-table", "rename-column", "web.alerts", "MSG", "text", "--dry-run").out
    done = filled.done("alter-table", "rename-column", "web.alerts", "MSG", "Text")
    assert done.out == "web.alerts: msg string -> text string\n"
    assert [column.name for column in client.get_table("web.alerts").columns] == ["id", "text", "at", "level"]
    rows = filled.done("read", "web.alerts", "--columns", "text", "-o", "json").rows
    assert {row["text"] for row in rows} == {f"m{i}" for i in range(10)}
    taken = filled("alter-table", "rename-column", "web.alerts", "text", "at")
    assert taken.code == 1
    nothing = filled.done("alter-table", "change-type", "web.alerts", "level:bigint")
    assert nothing.out == "web.alerts: nothing to change\n"


def test_properties_are_set_and_removed(filled: Shell, client: MetastoreClient) -> None:
    changes = ("orc.compress=SNAPPY", "owner_team=web")
    planned = filled.done("alter-table", "set-property", "web.alerts", *changes, "--dry-run").out
    assert planned.splitlines()[0] == "would change web.alerts: orc.compress=SNAPPY (was ZLIB)"
    assert client.get_table("web.alerts").properties["orc.compress"] == "ZLIB"
    filled.done("alter-table", "set-property", "web.alerts", *changes)
    properties = client.get_table("web.alerts").properties
    assert (properties["orc.compress"], properties["owner_team"]) == ("SNAPPY", "web")
    output = filled.done("alter-table", "set-property", "web.alerts", "owner_team=", "orc.compress=SNAPPY")
    assert output.out == "web.alerts: owner_team removed (was web)\n"
    assert "owner_team" not in client.get_table("web.alerts").properties
    assert filled("alter-table", "set-property", "web.alerts", "transactional=false").code == 1


# -- everyday ----------------------------------------------------------------------------------------


def test_a_quiet_command_prints_only_what_was_asked_for(alerts: Shell, tmp_path: Path) -> None:
    quiet = alerts.done("--quiet", "ingest", "web.alerts", records(tmp_path / "a.json", 3))
    assert (quiet.out, quiet.err) == ("", "")
    assert len(alerts.done("-q", "read", "web.alerts", "-o", "json").rows) == 3
    assert "error: " in alerts("-q", "read", "web.nothing").err
    assert alerts.done("ingest", "web.alerts", tmp_path / "a.json").out != ""


def test_the_configuration_is_shown_with_its_sources(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "hive-site.xml").write_text(
        "<configuration><property><name>hive.exec.max.dynamic.partitions</name><value>7</value></property>"
        "<property><name>hive.exec.orc.default.stripe.size</name><value>1000000</value></property></configuration>"
    )
    toml = tmp_path / "settings.toml"
    toml.write_text("[streaming]\nstripe_size_bytes = 2000000\nfsync = true\n")
    for name, value in {
        "HIVE_INGEST_METASTORE": "postgresql+psycopg://user:hunter2@host/db",
        "HIVE_CONF_DIR": str(tmp_path),
        "HIVE_INGEST_CONFIG": str(toml),
        "HIVE_INGEST_FSYNC": "false",
    }.items():
        monkeypatch.setenv(name, value)
    output = shell.done("config", "show", "--warehouse", "/data", "-o", "json")
    assert "hunter2" not in output.out
    found = {row["name"]: (row["value"], row["source"]) for row in output.rows}
    assert found["metastore"] == (
        "postgresql+psycopg://user:***@host/db",
        "HIVE_INGEST_METASTORE in the environment",
    )
    assert found["warehouse"] == ("/data", "--warehouse")
    assert found["fsync"] == (False, "HIVE_INGEST_FSYNC in the environment")
    assert found["stripe_size_bytes"] == (2_000_000, str(toml))
    assert found["max_partitions_per_transaction"] == (7, str(tmp_path / "hive-site.xml"))
    assert found["begin_retries"] == (20, "default")


def test_the_options_of_a_real_metastore_are_shown_and_its_password_is_masked(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = tmp_path / "hive-site.xml"
    site.write_text(
        "<configuration><property><name>hive.metastore.uris</name><value>thrift://one:9083</value></property>"
        "<property><name>hive.metastore.client.socket.timeout</name><value>5min</value></property></configuration>"
    )
    for name, value in {
        "HIVE_INGEST_METASTORE": "thrift://",
        "HIVE_CONF_DIR": str(tmp_path),
        "HIVE_INGEST_METASTORE_AUTHENTICATION": "plain",
        "HIVE_INGEST_METASTORE_USER": "anna",
        "HIVE_INGEST_METASTORE_PASSWORD": "hunter2",
    }.items():
        monkeypatch.setenv(name, value)
    output = shell.done("config", "show", "-o", "json")
    assert "hunter2" not in output.out
    found = {row["name"]: (row["value"], row["source"]) for row in output.rows}
    assert found["metastore_uris"] == ("thrift://one:9083", str(site))
    assert found["metastore_call_timeout_seconds"] == (300.0, str(site))
    assert found["metastore_user"] == ("anna", "HIVE_INGEST_METASTORE_USER in the environment")
    assert found["metastore_password"] == ("***", "HIVE_INGEST_METASTORE_PASSWORD in the environment")
    assert found["metastore_use_ssl"] == (False, "default")


def test_a_configuration_that_cannot_be_used_is_an_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_INGEST_FSYNC", "perhaps")
    outcome = shell("config", "show")
    assert (outcome.code, "'perhaps' from the environment" in outcome.err) == (1, True)


def test_the_package_can_be_run_as_a_module() -> None:
    command = [sys.executable, "-m", "hive_ingest", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("hive-ingest ")


def test_stdout_and_stderr_may_be_closed() -> None:
    command = f"{shlex.quote(sys.executable)} -m hive_ingest config show >&- 2>&-"
    assert subprocess.run(command, shell=True, check=False).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "databases"),
        ("show", "tables"),
        ("show", "transactions"),
        ("show", "locks"),
        ("show", "partitions", "web.alerts"),
        ("show", "deltas"),
        ("show", "compactions"),
        ("describe", "web.alerts"),
        ("sinks", "list"),
        ("sinks", "show", "web.alerts"),
        ("config", "show"),
        ("read", "web.alerts"),
    ],
)
@pytest.mark.only_on(["sqlite", "postgres"], because="Hive 3.1 has no history of compactions")
def test_every_table_is_printed_as_json_objects_too(filled: Shell, arguments: tuple[str, ...]) -> None:
    for line in filled.done(*arguments, "-o", "json").out.splitlines():
        assert isinstance(json.loads(line), dict)
