"""A realm, and services that require its tickets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.services.hdfs import Hdfs
from tests.services.kdc import REALM, Kdc, gssapi_classes, java_options
from tests.services.metastore import RealMetastore
from tests.services.postgres import PostgresServer

METASTORE = "hive/localhost"


@pytest.fixture(scope="session")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with Kdc(tmp_path_factory.mktemp("kdc")) as running:
        yield running


@pytest.fixture(scope="session")
def alice_keytab(kdc: Kdc) -> Path:
    """The keys of an ordinary user."""
    return kdc.keytab("alice")


@dataclass(frozen=True, slots=True)
class KerberizedMetastore:
    """A real metastore that requires tickets, and what `connect_metastore` needs to connect to it."""

    server: RealMetastore
    options: dict[str, Any]

    @property
    def uri(self) -> str:
        return f"thrift://localhost:{self.server.port}"


@pytest.fixture(scope="session")
def kerberized(
    kdc: Kdc, listening_postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., KerberizedMetastore]]:
    """Starts a metastore of a version with a protection of Hadoop: authentication, integrity or privacy."""
    keytab = kdc.keytab(METASTORE)
    running: dict[tuple[str, str], KerberizedMetastore] = {}
    with contextlib.ExitStack() as stack:

        def start(version: str, protection: str = "authentication") -> KerberizedMetastore:
            if (version, protection) not in running:
                home = tmp_path_factory.mktemp(f"metastore-{version}-{protection}")
                write_site(home / "core-site.xml", core_site(protection))
                database = stack.enter_context(listening_postgres.database_name())
                server = RealMetastore(
                    version,
                    home,
                    listening_postgres,
                    database,
                    properties={
                        "metastore.sasl.enabled": "true",
                        "metastore.kerberos.principal": f"{METASTORE}@{REALM}",
                        "metastore.kerberos.keytab.file": str(keytab),
                    },
                    java_options=java_options(kdc.configuration(), home),
                    classes=[gssapi_classes()],
                )
                options = {"authentication": "kerberos", "kerberos_principal": f"{METASTORE}@{REALM}"}
                running[version, protection] = KerberizedMetastore(stack.enter_context(server), options)
            metastore = running[version, protection]
            metastore.server.reset()
            return metastore

        yield start


@dataclass(frozen=True, slots=True)
class KerberizedHdfs:
    """A real HDFS that requires tickets, and the folder of the configuration for its clients."""

    server: Hdfs
    configuration: Path


@pytest.fixture(scope="session")
def hdfs_keytab(kdc: Kdc) -> Path:
    """The keys of HDFS itself."""
    return kdc.keytab("hdfs/localhost", "HTTP/localhost")


@pytest.fixture(scope="session")
def kerberized_hdfs(kdc: Kdc, hdfs_keytab: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberizedHdfs]:
    with kerberized_hdfs_in(tmp_path_factory.mktemp("kerberized-hdfs"), kdc, hdfs_keytab) as running:
        yield running


@contextlib.contextmanager
def kerberized_hdfs_in(
    home: Path, kdc: Kdc, keytab: Path, properties: Mapping[str, str] | None = None
) -> Iterator[KerberizedHdfs]:
    """A new HDFS with its files in `home`, its own keytab, and more properties than it needs."""
    site = core_site("privacy") | {
        **{f"dfs.{node}.kerberos.principal": f"hdfs/localhost@{REALM}" for node in ("namenode", "datanode")},
        **{f"dfs.{node}.keytab.file": str(keytab) for node in ("namenode", "datanode")},
        "dfs.web.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
        "dfs.web.authentication.kerberos.keytab": str(keytab),
        "dfs.block.access.token.enable": "true",
        "dfs.data.transfer.protection": "privacy",
        "dfs.encrypt.data.transfer": "false",
        # Else a DataNode with Kerberos wants TLS for its web pages, or ports below 1024.
        "ignore.secure.ports.for.testing": "true",
        **(properties or {}),
    }
    (home / "client").mkdir(parents=True)
    write_site(home / "site.xml", site)
    write_site(home / "client" / "core-site.xml", core_site("privacy"))
    write_site(home / "client" / "hdfs-site.xml", {"dfs.data.transfer.protection": "privacy"})
    options = [*java_options(kdc.configuration(), home), f"-Dhiveingest.site={home / 'site.xml'}"]
    with Hdfs(home, java_options=options, more_classes=[gssapi_classes()]) as running:
        yield KerberizedHdfs(running, home / "client")


def core_site(protection: str) -> dict[str, str]:
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.rpc.protection": protection,
        "hadoop.security.auth_to_local": "DEFAULT",
    }


def write_site(path: Path, properties: dict[str, str]) -> None:
    """A file of Hadoop's, such as `core-site.xml`."""
    entries = "".join(f"<property><name>{k}</name><value>{v}</value></property>\n" for k, v in properties.items())
    path.write_text(f"<configuration>\n{entries}</configuration>\n")
