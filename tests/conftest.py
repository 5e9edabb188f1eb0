"""Fixtures that several folders share: URIs of empty metastores, and a client connected to one."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import sqlalchemy as sa

from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from tests.services.kinds import REAL, Address, embedded_timeout
from tests.services.spark_versions import use_pyspark
from tests.support.metastores import connect_in
from tests.support.warehouses import STORES, left_out_because, warehouse_in, warehouses_on

if TYPE_CHECKING:
    from tests.acceptance.cli.shell import Shell
    from tests.services.metastore import RealMetastore, RealMetastores
    from tests.services.postgres import PostgresServer

# A shell that runs the tests in the background has them ignore SIGINT, and with them every process that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

_LEFT_OUT = pytest.StashKey[list[str]]()

# How long an example takes says more of the machine than of the code.
hypothesis.settings.register_profile("random", deadline=None, print_blob=True)
# The same examples each time, so that a failure comes from a change. `--hypothesis-profile=random` draws others.
hypothesis.settings.register_profile("hive_ingest", deadline=None, derandomize=True)
hypothesis.settings.load_profile("hive_ingest")


@pytest.fixture(scope="session", autouse=True)
def warehouses(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where the warehouses of all tests lie."""
    with warehouses_on(request.config.getoption("--warehouse"), tmp_path_factory.mktemp):
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Started when the first test requests it. Unit tests never do."""
    from tests.services.postgres import running_server

    with running_server() as server:
        yield server


@pytest.fixture
def sqlite_uri(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/metastore.db"


@pytest.fixture
def postgres_uri(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.database() as uri:
        yield uri


@pytest.fixture(scope="session")
def listening_postgres() -> Iterator[PostgresServer]:
    """A server that Java can connect to."""
    from tests.services.postgres import running_server

    with running_server(listens=True) as server:
        yield server


@pytest.fixture(scope="session")
def real_metastores(
    listening_postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealMetastores]:
    """Real Hive Metastores by version, and by timeout if it is not Hive's own."""
    from tests.services.metastore import RealMetastores

    with contextlib.closing(RealMetastores(tmp_path_factory.mktemp, listening_postgres)) as metastores:
        yield metastores


@pytest.fixture
def hive313_metastore(real_metastores: RealMetastores) -> RealMetastore:
    """Hive 3.1.3's, emptied."""
    metastore = real_metastores("3.1.3")
    metastore.reset()
    return metastore


@pytest.fixture
def hive401_metastore(real_metastores: RealMetastores) -> RealMetastore:
    """Hive 4.0.1's, emptied."""
    metastore = real_metastores("4.0.1")
    metastore.reset()
    return metastore


@pytest.fixture
def hive313_uri(hive313_metastore: RealMetastore) -> str:
    return hive313_metastore.uri


@pytest.fixture
def hive401_uri(hive401_metastore: RealMetastore) -> str:
    return hive401_metastore.uri


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--metastores",
        choices=["embedded", "real", "all"],
        default="embedded",
        help="what the suites that take any metastore run on: SQLite and PostgreSQL, or Hive's own 3.1.3 and 4.0.1; "
        "with all, what the embedded ones leave out too",
    )
    parser.addoption(
        "--warehouse",
        choices=list(STORES),
        default="local",
        help="what the warehouses lie on, in the suites of connections, crashes, readers, compaction, Spark and Kafka",
    )
    parser.addoption(
        "--hive",
        choices=["3.1.3", "4.0.1"],
        help="only the tests of this version of Hive; those that name none belong to 4.0.1",
    )
    parser.addoption(
        "--spark",
        metavar="VERSION",
        help="the version of pyspark for tests that name none, or lowest; default: the installed one",
    )


_WARNINGS_OF_PYSPARK_35 = (
    "distutils Version classes are deprecated:DeprecationWarning",
    "unclosed <socket.socket:ResourceWarning",
    "Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning",
)


def pytest_configure(config: pytest.Config) -> None:
    if version := config.getoption("--spark"):
        use_pyspark(version)
        for warning in _WARNINGS_OF_PYSPARK_35:
            config.addinivalue_line("filterwarnings", f"ignore:{warning}")
    config.addinivalue_line("markers", "only_on(kinds, because): promised by these kinds of metastores alone")
    config.addinivalue_line("markers", "local_warehouse(because): about the local file system alone")
    config.addinivalue_line("markers", "not_on(*stores, because): about what these warehouse stores cannot do")
    config.addinivalue_line("markers", "one_embedded: of the embedded metastores SQLite alone, for the sake of time")
    config.addinivalue_line("markers", "on_both: on SQLite and PostgreSQL, in a module that is one_embedded otherwise")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    metastores, hive = config.getoption("--metastores"), config.getoption("--hive")
    wanted = [item for item in items if _is_wanted(item, metastores) and hive in (None, _hive_of(item))]
    left_out = {
        item: because for item in wanted if (because := left_out_because(item, config.getoption("--warehouse")))
    }
    config.stash[_LEFT_OUT] = [f"{item.nodeid}: {because}" for item, because in left_out.items()]
    chosen = [item for item in wanted if item not in left_out]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """The tests that do not run on the store chosen by `--warehouse`."""
    found = config.stash.get(_LEFT_OUT, [])
    return [f"not run on {config.getoption('--warehouse')}:", *(f"  {each}" for each in found)] if found else []


def _is_wanted(item: pytest.Item, metastores: str) -> bool:
    """On real metastores run the tests for any metastore, and their own folder."""
    kind = (
        item.callspec.params.get("metastore_kind")
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else None
    )
    if kind is None:
        return metastores == "embedded" or "thrift" in item.path.parts
    only = item.get_closest_marker("only_on")
    return only is None or kind in only.args[0]


def _hive_of(item: pytest.Item) -> str:
    parameters = item.callspec.id if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ""
    names = [parameters, *getattr(item, "fixturenames", ())]
    return "3.1.3" if any("hive313" in name or "3.1.3" in name for name in names) else "4.0.1"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "metastore_kind" in metafunc.fixturenames:
        metafunc.parametrize("metastore_kind", _kinds(metafunc))


def _kinds(metafunc: pytest.Metafunc) -> list[Any]:
    postgres = pytest.param("postgres", marks=pytest.mark.postgres)
    marker = metafunc.definition.get_closest_marker
    is_one_enough = marker("one_embedded") is not None
    match metafunc.config.getoption("--metastores"):
        case "real":
            return list(REAL)
        case "all":
            return [*REAL, postgres] if is_one_enough else list(REAL)
    return ["sqlite"] if is_one_enough and marker("on_both") is None else ["sqlite", postgres]


@pytest.fixture
def metastore_uri(request: pytest.FixtureRequest, metastore_kind: str) -> str:
    """An empty metastore of each kind, one after the other."""
    uri: str = request.getfixturevalue(f"{metastore_kind}_uri")
    return uri


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], metastore_uri: str, tmp_path: Path
) -> Shell:
    """The command `hive-ingest`, with the metastore and the warehouse in its environment."""
    from tests.acceptance.cli.shell import Shell

    monkeypatch.setenv("HIVE_INGEST_METASTORE", metastore_uri)
    monkeypatch.setenv("HIVE_INGEST_WAREHOUSE", warehouse_in(tmp_path))
    return Shell(monkeypatch, capsys)


@pytest.fixture
def metastore_timing_out(request: pytest.FixtureRequest, metastore_kind: str) -> Callable[[float], Address]:
    """Creates an empty metastore of each kind with the given transaction timeout in seconds."""

    def metastore_at(seconds: float) -> Address:
        if metastore_kind not in REAL:
            return Address(request.getfixturevalue(f"{metastore_kind}_uri"), embedded_timeout(seconds))
        server = request.getfixturevalue("real_metastores")(REAL[metastore_kind], seconds)
        server.reset()
        return Address(server.uri)

    return metastore_at


@pytest.fixture
def forget_commits(request: pytest.FixtureRequest, metastore_kind: str) -> Callable[[str], None]:
    """Makes the metastore at an address forget its commits, as Hive does within seconds to minutes."""

    def forget(uri: str) -> None:
        if metastore_kind in REAL:
            with connect_metastore(uri) as client:
                client.commit_txn(*client.open_txns())
            # As Hive does: a transaction that is missing above the last one of a second ago counts as open.
            time.sleep(1.2)
            request.getfixturevalue("real_metastores").at(uri).forget_commits()
            return
        engine = sa.create_engine(uri)
        with engine.begin() as sql:
            sql.execute(sa.text('DELETE FROM "COMPLETED_TXN_COMPONENTS"'))
            sql.execute(sa.text('DELETE FROM "TXNS" WHERE "TXN_STATE" = \'c\''))
        engine.dispose()

    return forget


@pytest.fixture
def metastore(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, metastore_uri) as client:
        yield client
