"""Files of a killed writer are removed, and nothing else."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnId
from hive_ingest.transactions.staging import STAGING_FOLDER, new_staging
from tests.support.warehouses import store_path


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table("web.plain", columns={"id": "int"})
    return metastore


@pytest.fixture
def root(ms: MetastoreClient) -> Path:
    return store_path(ms.get_table("web.plain").location)


@pytest.fixture
def ended(ms: MetastoreClient) -> TxnId:
    """A transaction that is not open."""
    (txn_id,) = ms.open_txns(1)
    ms.abort_txn(txn_id)
    return txn_id


def connect(ms: MetastoreClient) -> None:
    """The next writer on the table comes by."""
    with StreamingConnection.connect(ms, database="web", table="plain", record_writer=hi.ArrowWriter()):
        pass


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"left")
    return path


def hidden(ms: MetastoreClient, txn_id: TxnId, suffix: str, metastore_id: str | None = None) -> Path:
    staging = new_staging(ms.get_table("web.plain"), txn_id, metastore_id or ms.metastore_id)
    return put(store_path(f"{staging}{suffix}"))


def test_files_of_ended_transactions_are_removed_and_those_of_open_ones_stay(ms: MetastoreClient, ended: TxnId) -> None:
    (open_txn,) = ms.open_txns(1)
    suffixes = [".0.orc", ".1.spill.orc", ".12.spill.arrow", ".3.version"]
    gone = [hidden(ms, ended, suffix) for suffix in suffixes]
    kept = [hidden(ms, open_txn, suffix) for suffix in suffixes]
    connect(ms)
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in kept)


@pytest.mark.local_warehouse(because="HDFS has no symbolic links")
def test_a_folder_that_is_a_symbolic_link_is_not_followed(ms: MetastoreClient, root: Path, ended: TxnId) -> None:
    """It was, and files elsewhere were deleted."""
    elsewhere = root.parent / "elsewhere"
    target = hidden(ms, ended, ".0.orc")
    (root / STAGING_FOLDER).rename(elsewhere)
    (root / STAGING_FOLDER).symlink_to(elsewhere)
    connect(ms)
    assert (elsewhere / target.name).exists()


@pytest.mark.parametrize(
    "name",
    [
        "²_x",  # was a ValueError: a digit to Python, and not a number
        "{txn}_notes.txt",
        "{txn}_{uuid}.0.orc",  # as earlier versions named them, without the metastore
        "{txn}_zzzzzzzz_{uuid}.0.orc",
        "x{txn}_{digest}_{uuid}.0.orc",
        "{txn}_{digest}_{uuid}.0.orc.bak",
        "0{txn}_{digest}_{uuid}.0.orc",
        "staged_0_{uuid}_0_{uuid}.arrow",
    ],
)
@pytest.mark.one_embedded
def test_a_file_of_any_other_name_stays(ms: MetastoreClient, root: Path, ended: TxnId, name: str) -> None:
    digest = hidden(ms, ended, ".0.orc").name.split("_")[1]
    file = put(root / STAGING_FOLDER / name.format(txn=ended, uuid=uuid.uuid4().hex, digest=digest))
    connect(ms)
    assert file.exists()
    assert [path.name for path in (root / STAGING_FOLDER).iterdir()] == [file.name]


def test_files_of_another_metastores_writers_are_kept(ms: MetastoreClient, ended: TxnId) -> None:
    """A second metastore over the same files has other transactions by the same ids: a living writer lost its files."""
    theirs = hidden(ms, ended, ".0.orc", metastore_id=str(uuid.uuid4()))
    connect(ms)
    assert theirs.exists()


def test_every_client_of_a_metastore_knows_the_same_id(ms: MetastoreClient) -> None:
    clone = ms.clone()
    assert uuid.UUID(clone.metastore_id) == uuid.UUID(ms.metastore_id)
    clone.close()
