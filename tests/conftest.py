"""Fixtures that several rooms share: addresses of empty metastores, and a client connected to one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hive_ingest.metastore_client import MetastoreClient, connect_metastore

if TYPE_CHECKING:
    from tests.parts.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Started when the first test asks for it; unit tests never do."""
    from tests.parts.postgres import running_server

    with running_server() as server:
        yield server


@pytest.fixture
def sqlite_uri(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/metastore.db"


@pytest.fixture
def postgres_uri(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.database() as uri:
        yield uri


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def metastore_uri(request: pytest.FixtureRequest) -> str:
    """An empty metastore on SQLite, then one on PostgreSQL."""
    uri: str = request.getfixturevalue(f"{request.param}_uri")
    return uri


@pytest.fixture
def metastore(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_metastore(metastore_uri, warehouse=tmp_path / "warehouse") as client:
        yield client
