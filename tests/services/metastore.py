"""A real Hive Metastore as a service, on PostgreSQL: started by the tests with Python, pip and pip's Java alone."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import socket
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from xml.sax.saxutils import escape

from tests.services.cache import cache_root, once
from tests.services.fetch import fetch, java
from tests.services.javac import additions
from tests.services.kinds import server_timeout
from tests.services.ports import free_port
from tests.services.postgres import PostgresServer
from tests.services.server import Server

VERSIONS = ("3.1.3", "4.0.1")

_SCHEMA_SCRIPTS = {"3.1.3": "hive-schema-3.1.0.postgres.sql", "4.0.1": "hive-schema-4.0.0.postgres.sql"}
#: Not loaded: debug builds that assert, other versions of what the set of jars has, a second binding of SLF4J.
_NOT_FROM_DISTRIBUTION = ("derby-", "guava-", "jackson-")
_NOT_FROM_SET = ("hive-exec-", "slf4j-", "reload4j-", "log4j-")

# Hive and Hadoop reach into Java's own classes, which Java 8 let them do.
_OPENED = (
    *("java.io", "java.lang", "java.lang.reflect", "java.math", "java.net", "java.nio", "java.nio.charset"),
    *("java.text", "java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic"),
    *("java.util.regex", "java.util.stream", "jdk.internal.misc", "jdk.internal.ref", "sun.nio.ch"),
)

_TASKS = tuple(
    f"org.apache.hadoop.hive.metastore.txn.{name}"
    for name in (
        "service.AcidHouseKeeperService",
        "service.AcidTxnCleanerService",
        "service.AcidOpenTxnsCounterService",
    )
)
_TASKS_3 = tuple(
    f"org.apache.hadoop.hive.metastore.txn.{name}"
    for name in ("AcidHouseKeeperService", "AcidOpenTxnsCounterService", "AcidWriteSetService")
)

_LOGGING = """\
status = WARN
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %5p [%t] %c{2}: %m%n
logger.quiet.name = DataNucleus
logger.quiet.level = ERROR
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
"""

# What an empty metastore holds is kept aside once it has started; a reset puts it back. Sequences go on, except the
# one of transaction ids, since Hive caches what it has drawn from the others.
_KEEP_ASIDE = """
DO $$ DECLARE t text; BEGIN
  CREATE SCHEMA pristine;
  FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
    EXECUTE format('CREATE TABLE pristine.%1$I AS TABLE public.%1$I', t);
  END LOOP;
END $$"""
_PUT_BACK = """
DO $$ DECLARE t text; BEGIN
  SET LOCAL session_replication_role = replica;
  FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'SEQUENCE_TABLE' LOOP
    EXECUTE format('DELETE FROM public.%1$I', t);
    EXECUTE format('INSERT INTO public.%1$I SELECT * FROM pristine.%1$I', t);
  END LOOP;
END $$"""


class MetastoreFailed(Exception):
    """The service did not start; the message ends with its log."""


@dataclass(frozen=True, slots=True)
class _Distribution:
    """One version, ready to start; all of it lies in the cache."""

    version: str
    class_path: str
    schema_script: Path


class RealMetastore(Server):
    """Hive Metastore `version` ("3.1.3" or "4.0.1") on a database of its own; `home` holds its warehouse and its log.

    `properties` are settings of `metastore-site.xml` beyond those that it needs to run; a `core-site.xml` in `home` is
    read too; `java_options` and `classes` are added to its command. It listens on 127.0.0.1, on
    the same port after a restart.
    """

    def __init__(
        self,
        version: str,
        home: Path,
        postgres: PostgresServer,
        database: str,
        *,
        properties: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        classes: Sequence[Path] = (),
        is_new: bool = True,
    ) -> None:
        self.version = version
        self.home = home
        self.warehouse = home / "warehouse"
        self.port = free_port()
        self._postgres, self._database = postgres, database
        self._distribution = _distribution(version)
        self._java_options, self._classes = java_options, classes
        self._log_numbers = itertools.count(1)
        home.mkdir(parents=True, exist_ok=True)
        self._configure({**_settings(version, self, postgres.port, database), **(properties or {})})
        if is_new:
            postgres.run(self._distribution.schema_script.read_text("utf-8"), database=database)
        self.start()
        if is_new:
            postgres.run(_KEEP_ASIDE, database=database)

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def client_settings(self) -> dict[str, str]:
        """For Hive on this metastore; its compactor goes to the database itself."""
        shared = _shared_settings(self, self._postgres.port, self._database)
        # Where a table has no partitions, the cleaner of 4.0.1 asks whether an untyped parameter is null, which
        # PostgreSQL takes only in the text of a statement.
        shared["javax.jdo.option.ConnectionURL"] += "?preferQueryMode=simple"
        warehouse = {f"hive.{key}": value for key, value in shared.items() if key.startswith("metastore.warehouse.")}
        return {"hive.metastore.uris": self.uri, **shared, **warehouse}

    def start(self) -> None:
        """Start it and wait until it listens; what it needs to answer is made before that."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start it without waiting."""
        self._launch(self._command(), self.home / f"metastore-{next(self._log_numbers)}.log", _root())

    def reset(self) -> None:
        """Empty it while it runs: its database is reset to the state after the start, and the warehouse is cleared."""
        self._postgres.run(_PUT_BACK, database=self._database)
        if self.version != "3.1.3":
            self._postgres.run("""ALTER SEQUENCE "TXNS_TXN_ID_seq" RESTART""", database=self._database)
        for folder in (self.warehouse, self.home / "warehouse_external"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of one statement, run directly on its database."""
        return self._postgres.query(sql, database=self._database)

    def forget_commits(self) -> None:
        """What Hive does within seconds to minutes. Its last transaction stays, and its first."""
        quote = "" if self.version == "3.1.3" else '"'
        txns, id_, state = (f"{quote}{name}{quote}" for name in ("TXNS", "TXN_ID", "TXN_STATE"))
        self._postgres.run(
            f"DELETE FROM {quote}COMPLETED_TXN_COMPONENTS{quote}",
            f"DELETE FROM {txns} WHERE {state} = 'c' AND {id_} > 0 AND {id_} < (SELECT MAX({id_}) FROM {txns})",
            database=self._database,
        )

    def _answers(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _failure(self) -> MetastoreFailed:
        return MetastoreFailed(f"Hive Metastore {self.version} did not start; its log ends:\n{self._log_end()}")

    def _log_end(self) -> str:
        logs = sorted(self.home.glob("metastore-*.log"), key=lambda path: path.stat().st_mtime)
        return logs[-1].read_text(errors="replace")[-4000:]

    def _configure(self, settings: Mapping[str, str]) -> None:
        entries = "".join(
            f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
            for name, value in settings.items()
        )
        (self.home / "metastore-site.xml").write_text(f"<configuration>\n{entries}</configuration>\n")
        (self.home / "metastore-log4j2.properties").write_text(_LOGGING)

    def _command(self) -> list[str]:
        opened = [option for name in _OPENED for option in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
        return [
            # The second compiler would cost more time than it saves.
            *(str(java()), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opened),
            f"-Dlog4j2.configurationFile={self.home}/metastore-log4j2.properties",
            f"-Djava.io.tmpdir={self.home}",
            *self._java_options,
            *("-cp", ":".join(map(str, (self.home, *self._classes, self._distribution.class_path)))),
            *("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port)),
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class RealMetastores:
    """One server for each version and timeout (by default Hive's own), started at the first request."""

    def __init__(self, folder: Callable[[str], Path], postgres: PostgresServer) -> None:
        self._folder, self._postgres = folder, postgres
        self._running: dict[tuple[str, float | None], RealMetastore] = {}
        self._stack = contextlib.ExitStack()

    def __call__(self, version: str, timeout_seconds: float | None = None) -> RealMetastore:
        if (version, timeout_seconds) not in self._running:
            database = self._stack.enter_context(self._postgres.database_name())
            properties = server_timeout(version, timeout_seconds) if timeout_seconds else {}
            made = RealMetastore(
                version, self._folder(f"metastore-{version}"), self._postgres, database, properties=properties
            )
            self._running[version, timeout_seconds] = self._stack.enter_context(made)
        return self._running[version, timeout_seconds]

    def at(self, uri: str) -> RealMetastore:
        """The one that listens there."""
        [found] = [metastore for metastore in self._running.values() if metastore.uri == uri]
        return found

    def close(self) -> None:
        self._stack.close()


def _settings(version: str, metastore: RealMetastore, postgres_port: int, database: str) -> dict[str, str]:
    return {
        **_shared_settings(metastore, postgres_port, database),
        "metastore.thrift.bind.host": "127.0.0.1",
        "datanucleus.schema.autoCreateAll": "false",
        "metastore.schema.verification": "true",
        "metastore.support.concurrency": "true",
        "hive.support.concurrency": "true",
        "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
        # Timeouts come from housekeeping, which is off unless asked for.
        "metastore.housekeeping.threads.on": "true",
        "metastore.task.threads.remote": ",".join(_TASKS_3 if version == "3.1.3" else _TASKS),
        "metastore.compactor.initiator.on": "false",
        "metastore.compactor.cleaner.on": "false",
        "metastore.compactor.worker.threads": "0",
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        "metastore.expression.proxy": "org.apache.hadoop.hive.ql.optimizer.ppr.PartitionExpressionForMetastore",
        "metastore.server.min.threads": "4",
        "metastore.execute.setugi": "false",
        "metastore.metrics.enabled": "false",
        "metastore.async.log.enabled": "false",
    }


def _shared_settings(metastore: RealMetastore, postgres_port: int, database: str) -> dict[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://127.0.0.1:{postgres_port}/{database}",
        "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "javax.jdo.option.ConnectionUserName": "postgres",
        "javax.jdo.option.ConnectionPassword": "unused",
        "metastore.warehouse.dir": metastore.warehouse.as_uri(),
        "metastore.warehouse.external.dir": (metastore.home / "warehouse_external").as_uri(),
    }


def _distribution(version: str) -> _Distribution:
    jars = fetch(f"hive-{version}")
    # The set's name ends with the checksum of its lock.
    folder = once(cache_root() / "metastore" / jars.name, lambda made: _unpack(version, jars, made))
    extra = fetch("metastore")
    paths = [
        additions(version),
        *_jars(jars, but=_NOT_FROM_SET),
        *_jars(folder / "lib", but=_NOT_FROM_DISTRIBUTION),
        *_jars(extra),
        # A fat jar, with old versions of half of the others in it.
        *jars.glob("hive-exec-*.jar"),
    ]
    return _Distribution(version, ":".join(map(str, paths)), folder / _SCHEMA_SCRIPTS[version])


def _unpack(version: str, jars: Path, folder: Path) -> None:
    (folder / "lib").mkdir()
    with tarfile.open(next(jars.glob("*-bin.tar.gz"))) as archive:
        for member in archive:
            path = Path(member.name)
            is_jar = path.parent.name == "lib" and path.suffix == ".jar"
            if is_jar or (path.parent.name == "postgres" and path.name == _SCHEMA_SCRIPTS[version]):
                file = archive.extractfile(member)
                assert file is not None
                (folder / ("lib" if is_jar else "") / path.name).write_bytes(file.read())


def _jars(folder: Path, *, but: tuple[str, ...] = ()) -> list[Path]:
    return sorted(path for path in folder.glob("*.jar") if not path.name.startswith(but))


def _root() -> Path:
    return Path(__file__).parent.parent.parent
