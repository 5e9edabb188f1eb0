"""What is special about Azure Storage: blocks that are not committed, folders, options, and a table on it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.errors import ConfigurationError, PathExists, PathNotFound, StreamingIOFailure, UnsupportedFeature
from hive_ingest.storage import Location
from hive_ingest.storage.azure.options import AzureOptions
from hive_ingest.storage.azure.store import AzureStore
from tests.services.azure import AzureService
from tests.storage.objects import LARGE, MIB, content, put, stage

AUTHORITY = "web@account.dfs.core.windows.net"


@pytest.fixture(params=[b"", b"rows", LARGE], ids=["empty", "small", "large"])
def data(request: pytest.FixtureRequest) -> bytes:
    """Of a file."""
    return bytes(request.param)


def authority_of(location: Location) -> str:
    return str(location).removeprefix("abfs://").partition("/")[0]


def root_of(location: Location) -> str:
    """The location of its container."""
    return f"abfs://{authority_of(location)}"


# -- files that are renamed later ------------------------------------------------------------------------


def test_a_file_whose_rename_is_announced_is_uploaded_under_its_later_name(
    azure: AzureService, azure_root: Location
) -> None:
    hidden, target = azure_root / ".hidden", azure_root / "bucket_00000"
    stage(hidden, target, LARGE)
    name = target.path[1:]
    assert name in azure.names(root_of(azure_root), uncommitted=True)
    assert name not in azure.names(root_of(azure_root))
    assert not target.exists()
    assert [entry.name for entry in azure_root.list()] == [".hidden"]
    assert azure_root.store.file_size(hidden.path) == len(LARGE)
    with pytest.raises(StreamingIOFailure, match="not published yet"):
        hidden.open_input()
    hidden.rename(target)
    assert content(target) == LARGE
    assert [entry.name for entry in azure_root.list()] == ["bucket_00000"]


def test_publishing_copies_no_bytes_of_a_large_file(azure_with_faults: AzureService, azure_root: Location) -> None:
    stage(azure_root / ".hidden", azure_root / "a", LARGE)
    azure_with_faults.set_faults()
    (azure_root / ".hidden").rename(azure_root / "a")
    assert azure_with_faults.proxy.requests() == {"PutBlockList": 1, "DeleteBlob": 1}
    assert content(azure_root / "a") == LARGE


def test_a_file_that_stays_in_memory_takes_one_request(azure_with_faults: AzureService, azure_root: Location) -> None:
    hidden, target = azure_root / ".hidden", azure_root / "a"
    azure_with_faults.set_faults()
    hidden.announce_rename(target, here=True)
    put(hidden, LARGE)
    assert content(hidden) == LARGE
    hidden.publish(target)
    azure_root.store.remove_old_names([hidden.path])
    assert azure_with_faults.proxy.requests() == {"PutBlob": 1}
    assert content(target) == LARGE


def test_another_process_publishes_what_this_one_has_written(azure_root: Location, data: bytes) -> None:
    """All that it needs is in the store."""
    hidden, target = azure_root / ".hidden", azure_root / "a"
    stage(hidden, target, data)
    received = pickle.loads(pickle.dumps(hidden))
    AzureStore(authority_of(azure_root)).rename(received.path, target.path)
    assert content(target) == data
    assert [entry.name for entry in azure_root.list()] == ["a"]


def test_a_published_file_is_never_replaced(azure_root: Location, data: bytes) -> None:
    stage(azure_root / ".first", azure_root / "a", data)
    stage(azure_root / ".second", azure_root / "a", b"x" + data)
    (azure_root / ".first").rename(azure_root / "a")
    with pytest.raises(PathExists):
        (azure_root / ".second").rename(azure_root / "a")
    (azure_root / ".second").delete_file()
    assert content(azure_root / "a") == data
    assert [entry.name for entry in azure_root.list()] == ["a"]


def test_a_file_is_renamed_to_another_name_than_the_announced_one(azure_root: Location, data: bytes) -> None:
    """A partition may lie elsewhere than its name says."""
    (azure_root / "elsewhere").make_folder()
    stage(azure_root / ".hidden", azure_root / "p=1" / "a", data)
    (azure_root / ".hidden").rename(azure_root / "elsewhere" / "a")
    assert content(azure_root / "elsewhere" / "a") == data
    assert [entry.name for entry in azure_root.list()] == ["elsewhere"]


def test_a_file_whose_blocks_were_removed_is_not_renamed(azure: AzureService, azure_root: Location) -> None:
    """By the service, after a week."""
    stage(azure_root / ".hidden", azure_root / "a", LARGE)
    blob = azure.container(authority_of(azure_root).partition("@")[0]).get_blob_client((azure_root / "a").path[1:])
    blob.commit_block_list([])  # which removes all others
    blob.delete_blob()
    with pytest.raises(StreamingIOFailure, match="blocks were removed meanwhile"):
        (azure_root / ".hidden").rename(azure_root / "a")
    assert not (azure_root / "a").exists()


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_large_file_is_uploaded_in_blocks(azure_root: Location, is_staged: bool) -> None:
    data = b"".join(bytes([number]) * MIB for number in range(20))
    target = azure_root / "a"
    if is_staged:
        stage(azure_root / ".hidden", target, data)
        (azure_root / ".hidden").rename(target)
    else:
        put(target, data)
    assert content(target) == data
    with target.open_input() as file:
        assert file.read_at(10, 3 * MIB - 5) == data[3 * MIB - 5 : 3 * MIB + 5]
        assert file.read_at(10, 5) == data[5:15]
        assert file.read_at(20, 20 * MIB - 10) == data[-10:]


# -- folders ---------------------------------------------------------------------------------------------


def test_folders_that_other_programs_made_are_listed_as_such(azure: AzureService, azure_root: Location) -> None:
    """By blobs in them alone, and by an empty blob with Hadoop's metadata."""
    container = azure.container(authority_of(azure_root).partition("@")[0])
    prefix = azure_root.path[1:]
    container.upload_blob(f"{prefix}/p=1/delta_1_1/bucket_00000", b"12345")
    container.upload_blob(f"{prefix}/p=2", b"", metadata={"hdi_isfolder": "true"})
    container.upload_blob(f"{prefix}/p=2/delta_2_2", b"", metadata={"Hdi_isfolder": "true"})
    assert [(entry.name, entry.is_folder) for entry in azure_root.list()] == [("p=1", True), ("p=2", True)]
    found = [(entry.path[len(azure_root.path) + 1 :], entry.is_folder) for entry in azure_root.list(recursive=True)]
    assert found == [
        ("p=1", True),
        ("p=1/delta_1_1", True),
        ("p=1/delta_1_1/bucket_00000", False),
        ("p=2", True),
        ("p=2/delta_2_2", True),
    ]
    assert (azure_root / "p=2" / "delta_2_2").list() == []
    for folder in ("p=1", "p=2"):
        (azure_root / folder).delete_folder()
    assert azure_root.list() == []


def test_a_folder_that_is_emptied_is_still_there(azure: AzureService, azure_root: Location) -> None:
    """One that another program has made by the files in it."""
    container = azure.container(authority_of(azure_root).partition("@")[0])
    container.upload_blob(f"{azure_root.path[1:]}/p=1/delta_1_1/bucket_00000", b"12345")
    (azure_root / "p=1" / "delta_1_1").delete_folder()
    assert (azure_root / "p=1").list() == []


def test_an_empty_folder_is_not_a_new_one(azure_root: Location) -> None:
    delta = azure_root / "delta_1_1"
    delta.make_folder()
    with pytest.raises(PathExists):
        delta.store.make_folder_with(delta.path, "first", b"2")
    assert delta.list() == []


def test_a_folder_is_not_renamed(azure_root: Location) -> None:
    (azure_root / "a").make_folder()
    with pytest.raises(UnsupportedFeature, match="cannot rename a folder"):
        azure_root.store.rename_folder((azure_root / "a").path, (azure_root / "b").path)


def test_a_missing_container_is_named(azure: AzureService) -> None:
    missing = Location.of("abfs://nowhere@testing.dfs.core.windows.net/t")
    for call in (missing.list, lambda: missing.list(missing_ok=True), missing.exists):
        with pytest.raises(StreamingIOFailure, match="there is no such container: create it") as failure:
            call()
        assert not isinstance(failure.value, PathNotFound)


# -- options ---------------------------------------------------------------------------------------------


def test_schemes_of_one_container_share_their_store() -> None:
    assert Location.of(f"abfs://{AUTHORITY}/t") == Location.of(f"abfss://{AUTHORITY}/t")
    assert Location.of(f"abfs://{AUTHORITY}/t").path == "/t"


def test_options_of_an_account_take_precedence() -> None:
    properties = {
        "fs.azure.account.key": "all",
        "fs.azure.account.key.account.dfs.core.windows.net": "own",
        "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
        "fs.azure.account.oauth2.client.id": "id",
        "fs.azure.account.oauth2.client.secret": "secret",
    }
    own = AzureOptions.of_properties(properties, AUTHORITY)
    assert (own.account, own.container, own.endpoint) == ("account", "web", "https://account.blob.core.windows.net")
    assert own.credential == "own"
    assert (own.tenant, own.client_id, own.client_secret) == ("tenant", "id", "secret")
    assert AzureOptions.of_properties(properties, "web@other.dfs.core.windows.net").credential == "all"
    assert "secret" not in repr(own)


def test_without_a_key_azures_own_sources_of_credentials_are_used() -> None:
    principal = AzureOptions.of_properties(
        {
            "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
            "fs.azure.account.oauth2.client.id": "id",
            "fs.azure.account.oauth2.client.secret": "secret",
        },
        AUTHORITY,
    )
    assert type(principal.credential).__name__ == "ClientSecretCredential"
    assert type(AzureOptions.of_properties({}, AUTHORITY).credential).__name__ == "DefaultAzureCredential"
    assert AzureOptions.of_properties({"fs.azure.sas.fixed.token": "sig=1"}, AUTHORITY).credential == "sig=1"


def test_a_connection_string_of_another_account_is_not_used() -> None:
    environ = {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=account;AccountKey=a2V5"}
    assert AzureOptions.of_properties({}, AUTHORITY, environ).connection_string
    other = AzureOptions.of_properties({}, "web@other.dfs.core.windows.net", environ)
    assert other.connection_string is None


def test_a_location_without_an_account_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"write 'abfs://CONTAINER@ACCOUNT\.dfs\.core\.windows\.net/path'"):
        Location.of("abfs://web/t").exists()


def test_without_its_client_azure_is_refused_and_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "azure.storage.blob", None)
    with pytest.raises(UnsupportedFeature, match=r"hive-ingest\[azure\]"):
        AzureStore(AUTHORITY).exists("/a")


# -- the library on it -----------------------------------------------------------------------------------


@pytest.fixture
def metastore(azure_root: Location, tmp_path: Path) -> Iterator[hi.MetastoreClient]:
    """An embedded metastore in a local file, whose warehouse is on Azure Storage."""
    uri = f"sqlite:///{tmp_path}/metastore.db"
    with hi.connect_metastore(uri, warehouse=str(azure_root / "warehouse"), create=True) as client:
        client.create_database("web")
        yield client


def test_a_table_on_azure_is_written_read_compacted_and_cleaned(metastore: hi.MetastoreClient) -> None:
    table = metastore.create_table(
        "web.events", columns={"id": "bigint", "msg": "string"}, partition_keys={"time": "string"}
    )
    rows = [{"id": number, "msg": "é", "time": f"10:{number % 3}"} for number in range(30)]
    for start in (0, 10, 20):
        with hi.StreamingConnection.connect(
            metastore, table="web.events", record_writer=hi.StrictJsonWriter(), sink="events", sources=["a"]
        ) as connection:
            connection.begin_transaction()
            connection.write("\n".join(json.dumps(row) for row in rows[start : start + 10]))
            connection.commit_transaction(positions={"a": start + 10})
    read = sorted(hi.read_table(metastore, "web.events").to_pylist(), key=lambda row: row["id"])
    assert read == rows
    hi.compact(metastore, "web.events", kind="major", wait=True)
    hi.Compactor(metastore, roles=["cleaner"]).run_once()
    assert hi.read_table(metastore, "web.events").num_rows == 30
    partition = Location.of(table.location) / "time=10%3A0"
    (base,) = [entry.name for entry in partition.list()]
    assert base.startswith("base_")
    assert (Location.of(table.location) / ".hive_ingest").list() == []


def test_of_two_writers_of_one_folder_the_second_publishes_nothing(
    metastore: hi.MetastoreClient, azure: AzureService, azure_root: Location
) -> None:
    """As after a metastore was restored from an older copy. Folders of other partitions were made before."""
    table = metastore.create_table("web.t", columns={"id": "bigint"}, partition_keys={"p": "string"})
    metastore.add_partitions("web.t", [["7"]])
    theirs = Location.of(table.location) / "p=7" / "delta_0000001_0000001_0000"
    with hi.StreamingConnection.connect(metastore, table="web.t", record_writer=hi.StrictJsonWriter()) as connection:
        theirs.make_folder()
        put(theirs / "bucket_00000", b"theirs")
        connection.begin_transaction()
        for number in range(20):
            connection.write(json.dumps({"id": number, "p": str(number)}))
        with pytest.raises(PathExists, match="exists already and is not of this transaction"):
            connection.commit_transaction()
        connection.abort_transaction()
    files = [name for name in azure.names(root_of(azure_root)) if "bucket_" in name or "_orc_acid_version" in name]
    assert files == [(theirs / "bucket_00000").path[1:]]
    assert content(theirs / "bucket_00000") == b"theirs"
