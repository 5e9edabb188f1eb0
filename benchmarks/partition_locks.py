"""What the locks of many Kafka partitions cost, on each kind of metastore.

    python benchmarks/partition_locks.py                          SQLite, PostgreSQL and Hive Metastore 4.0.1
    python benchmarks/partition_locks.py sqlite --partitions 500 2000

An instance that owns N partitions locks N sources of its sink in each transaction. This measures, as medians in ms:

    begin       of a transaction: its ids, its locks and the positions
    lock        of these, the request for all locks
    heartbeat   of a transaction that holds them
    check       of another instance that waits for the same locks, which it repeats while it waits
    commit      of one row and one position; it releases the locks
    commit all  of one row and N positions

The servers run on the same machine, on the disk of the temporary folder.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import hive_ingest as hi
from tests.services.metastore import RealMetastores
from tests.services.postgres import running_server

KINDS = ("sqlite", "postgresql", "4.0.1", "3.1.3")
ROUNDS = 7
WAIT_SECONDS = 3.0
TIMES = ("begin", "lock", "heartbeat", "check", "commit", "commit all")


class Timed:
    """A client that notes how long its calls take."""

    def __init__(self, client: Any, seconds: dict[str, list[float]]) -> None:
        self._client = client
        self._seconds = seconds

    def clone(self) -> Timed:
        return Timed(self._client.clone(), self._seconds)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            with timing(self._seconds, name):
                return found(*args, **kwargs)

        return call


@contextlib.contextmanager
def timing(seconds: dict[str, list[float]], name: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[name].append(time.perf_counter() - start)


@contextlib.contextmanager
def metastore(kind: str, folder: Path) -> Iterator[Any]:
    """A client of a new metastore."""
    if kind == "sqlite":
        with hi.connect_metastore(f"sqlite:///{folder}/ms.db", create=True) as client:
            yield client
        return
    with running_server(listens=kind != "postgresql") as server:  # Java needs TCP
        if kind == "postgresql":
            with server.database() as uri, hi.connect_metastore(uri, warehouse=folder, create=True) as client:
                yield client
            return
        servers = RealMetastores(lambda name: folder / name, server)
        with contextlib.closing(servers), hi.connect_metastore(servers(kind).uri) as client:
            yield client


def connect(client: Any, partitions: int, **settings: Any) -> Any:
    return hi.StreamingConnection.connect(
        client,
        table="bench.events",
        record_writer=hi.StrictJsonWriter(),
        sink="events",
        sources=sources(partitions),
        settings=hi.StreamingSettings(**settings),
    )


def sources(partitions: int) -> list[str]:
    return [f"events-{number}" for number in range(partitions)]


def measure(client: Any, partitions: int) -> dict[str, float]:
    """The medians, in seconds."""
    seconds: dict[str, list[float]] = defaultdict(list)
    with connect(Timed(client, seconds), partitions) as connection:
        for number in range(2 * ROUNDS):
            is_all = number % 2 == 1
            with timing(seconds, "begin"):
                connection.begin_transaction()
            connection.write(b'{"id": 1}')
            moved = sources(partitions if is_all else 1)
            with timing(seconds, "commit all" if is_all else "commit"):
                connection.commit_transaction(positions={source: {"offset": number} for source in moved})
        connection.begin_transaction()
        (txn,) = {lock.txn_id for lock in client.show_locks()}
        for _ in range(ROUNDS):
            with timing(seconds, "heartbeat"):
                client.heartbeat_txn_range(txn, txn)
        waiting = connect(Timed(client.clone(), seconds), partitions, lock_wait_seconds=WAIT_SECONDS)
        with waiting as other, contextlib.suppress(hi.LockTimeout):
            other.begin_transaction()
        connection.abort_transaction()
    seconds["check"] = seconds.pop("check_lock")
    return {name: statistics.median(seconds[name]) for name in TIMES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; the first three by default")
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 100, 500])
    arguments = parser.parse_args()
    print(f"{'metastore':12} {'partitions':>10}" + "".join(f"{name + ' ms':>14}" for name in TIMES))
    for kind in arguments.kinds or KINDS[:3]:
        if kind not in KINDS:
            parser.error(f"{kind!r} is not one of {', '.join(KINDS)}")
        with (
            tempfile.TemporaryDirectory(prefix="hive-ingest-bench-") as folder,
            metastore(kind, Path(folder)) as client,
        ):
            client.create_database("bench")
            client.create_table("bench.events", columns={"id": "bigint"})
            for partitions in arguments.partitions:
                found = measure(client, partitions)
                times = "".join(f"{found[name] * 1000:14.1f}" for name in TIMES)
                print(f"{kind:12} {partitions:10,}{times}", flush=True)


if __name__ == "__main__":
    main()
