"""Real metastores by version, and one that requires TLS and a password."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from tests.services.fetch import java_home
from tests.services.kinds import server_timeout
from tests.services.metastore import RealMetastore, RealMetastores
from tests.services.postgres import PostgresServer

USER, PASSWORD = "streamer", "s3cret"
TIMEOUT_SECONDS = 4.0
SHORT_TIMEOUT_SECONDS = 5.0


@pytest.fixture(params=["3.1.3", "4.0.1"])
def real_metastore(request: pytest.FixtureRequest, real_metastores: RealMetastores) -> RealMetastore:
    """Hive 3.1.3's, then 4.0.1's, emptied."""
    metastore = real_metastores(request.param)
    metastore.reset()
    return metastore


@pytest.fixture(params=["3.1.3", "4.0.1"])
def impatient_metastore(request: pytest.FixtureRequest, real_metastores: RealMetastores) -> RealMetastore:
    """The same with a short timeout."""
    metastore = real_metastores(request.param, SHORT_TIMEOUT_SECONDS)
    metastore.reset()
    return metastore


@pytest.fixture
def client(real_metastore: RealMetastore) -> Iterator[MetastoreClient]:
    with connect_metastore(real_metastore.uri) as client:
        yield client


@dataclass(frozen=True, slots=True)
class SecuredMetastore:
    """Hive 4.0.1's with TLS and SASL PLAIN, a short timeout, remembered snapshots (HIVE-24291), a listener."""

    server: RealMetastore
    ca_file: Path

    def options(self) -> dict[str, Any]:
        """Those with which it lets us in."""
        return {
            "use_ssl": True,
            "ssl_ca_file": str(self.ca_file),
            "authentication": "plain",
            "user": USER,
            "password": PASSWORD,
        }


@pytest.fixture(scope="session")
def secured_metastore(
    listening_postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredMetastore]:
    home = tmp_path_factory.mktemp("secured")
    keystore, ca_file = make_certificate(home)
    properties = {
        "metastore.use.SSL": "true",
        "metastore.keystore.path": str(keystore),
        "metastore.keystore.password": PASSWORD,
        "metastore.keystore.type": "PKCS12",
        "metastore.authentication": "CONFIG",
        "metastore.authentication.config.username": USER,
        "metastore.authentication.config.password": PASSWORD,
        "metastore.txn.use.minhistorywriteid": "true",
        "hive.metastore.dml.events": "true",
        "metastore.transactional.event.listeners": "hiveingest.services.AcidWriteLog",
        **server_timeout("4.0.1", TIMEOUT_SECONDS),
    }
    with (
        listening_postgres.database_name() as database,
        RealMetastore("4.0.1", home, listening_postgres, database, properties=properties) as server,
    ):
        yield SecuredMetastore(server, ca_file)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A key store for 127.0.0.1, and its certificate as PEM; made by the keytool of pip's Java."""
    keystore, pem = folder / "key.p12", folder / "certificate.pem"
    keytool = str(java_home() / "bin" / "keytool")
    store = ["-keystore", str(keystore), "-storetype", "PKCS12", "-storepass", PASSWORD, "-alias", "metastore"]
    names = ["-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1"]
    subprocess.run(
        [keytool, "-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", *store, *names],
        check=True,
        capture_output=True,
    )
    subprocess.run([keytool, "-exportcert", "-rfc", "-file", str(pem), *store], check=True, capture_output=True)
    return keystore, pem
