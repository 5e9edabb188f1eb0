"""Topics into a table beside kafka-python alone and beside a plain consumer, on a real broker, in one run.

    python benchmarks/kafka_ingest.py               both parts (about eight minutes)
    python benchmarks/kafka_ingest.py throughput    1M messages of about 200 bytes: messages/s and processor time
    python benchmarks/kafka_ingest.py latency       from produced to readable, at 1,000 messages/s with max_seconds=1

Throughput: one topic of four partitions, read from its start to its end in a group of one consumer, three ways:
`poll` is kafka-python's poll alone, with the ingest's own settings; `plain` polls, parses with orjson and writes ORC
(zstd) without a transaction, a sync or a position; `ingest` is `KafkaIngest`, which commits on SQLite, synced. Each run
is a process of its own, the three take turns, medians are reported. The clock runs from before the consumer is made
until it is closed after the last message (the last commit), so joining the group is part of it for all three. Imports,
the creation of the table and the count of its rows are not.

Latency: a producer sends 1,000 messages/s for a minute. A message is readable when the commit of its transaction has
returned.

The broker runs on the same machine, and takes processor time as well. `plain` needs orjson, which the project does
not: pip install orjson.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
from kafka import KafkaConsumer, KafkaProducer

sys.path.insert(0, str(Path(__file__).parents[1]))
import hive_ingest as hi
from hive_ingest.model import columns_of
from hive_ingest.schema import arrow_schema
from hive_ingest.streaming.kafka import KafkaIngest, KafkaRoute
from hive_ingest.streaming.kafka.options import MAX_PARTITION_FETCH_BYTES, MAX_POLL_RECORDS

MESSAGES = 1_000_000
PARTITIONS = 4
RUNS = 3
SIDES = ("poll", "plain", "ingest", "confluent")
#: Ingest's messages/s to those of polling alone.
TO_REACH = 0.85
ROWS_PER_COMMIT = 500_000
LATENCY_RATE = 1_000
LATENCY_SECONDS = 60
P99_TO_REACH = 2.5
COLUMNS = {
    "id": "bigint",
    "user": "string",
    "msg": "string",
    "value": "double",
    "country": "string",
    "url": "string",
    "produced_at": "double",
}
_WORDS = ("alpha", "beta", "gamma", "disk", "cpu", "memory", "net", "error", "warning", "timeout", "retry", "login")


def message(rng: random.Random, number: int) -> bytes:
    """One event of about 200 bytes."""
    record = {
        "id": number,
        "user": f"user{rng.randrange(20_000):05d}",
        "msg": " ".join(rng.choices(_WORDS, k=6)) + f" #{rng.randrange(10**6)}",
        "value": round(rng.random() * 1000, 4),
        "country": f"C{rng.randrange(50):02d}",
        "url": f"https://example.org/{rng.choice(_WORDS)}/{rng.randrange(10**6):06d}",
        "produced_at": time.time(),
    }
    return json.dumps(record, separators=(",", ":")).encode()


# -- one run, in a process of its own ------------------------------------------------------------------


def consumer(servers: str, topic: str, group: str) -> Any:
    """With the settings that an ingest uses."""
    return KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=MAX_POLL_RECORDS,
        max_partition_fetch_bytes=MAX_PARTITION_FETCH_BYTES,
        metrics_enabled=False,
    )


def poll(servers: str, topic: str, group: str, folder: Path) -> int:
    """kafka-python alone: every message becomes a ConsumerRecord, and nothing is done with it."""
    reader = consumer(servers, topic, group)
    count = 0
    while count < MESSAGES:
        count += sum(map(len, reader.poll(timeout_ms=1_000).values()))
    reader.close(autocommit=False)
    return count


def plain(servers: str, topic: str, group: str, folder: Path) -> int:
    """What a program without this package would do, and without its guarantees."""
    import orjson

    schema = arrow_schema(columns_of(COLUMNS))
    reader = consumer(servers, topic, group)
    count = files = 0
    rows: list[Any] = []
    while count < MESSAGES:
        for records in reader.poll(timeout_ms=1_000).values():
            rows.extend(orjson.loads(record.value) for record in records)
            count += len(records)
        if len(rows) >= ROWS_PER_COMMIT or (rows and count == MESSAGES):
            table = pa.Table.from_pylist(rows, schema=schema)
            pa.orc.write_table(table, str(folder / f"{files}.orc"), compression="zstd")
            files += 1
            rows.clear()
    reader.close(autocommit=False)
    return count


def ingest(servers: str, topic: str, group: str, folder: Path, client: str = "kafka-python") -> int:
    """`KafkaIngest`, exactly once, synced."""
    rows: list[int] = []
    running = new_ingest(
        *(servers, topic, group, folder),
        max_rows=ROWS_PER_COMMIT,
        client=client,
        on_commit=lambda info: rows.append(info.rows),
    )
    running.run(until_end=True)
    return sum(rows)


def create_table(folder: Path) -> None:
    metastore = f"sqlite:///{folder}/metastore.db"
    with hi.connect_metastore(metastore, warehouse=str(folder / "warehouse"), create=True) as client:
        client.create_database("bench")
        client.create_table("bench.events", columns=COLUMNS)


def new_ingest(servers: str, topic: str, group: str, folder: Path, **options: Any) -> Any:
    metastore = f"sqlite:///{folder}/metastore.db"
    route = KafkaRoute(topic=topic, table="bench.events", record_writer=hi.StrictJsonWriter())
    return KafkaIngest(metastore=metastore, bootstrap_servers=servers, group_id=group, routes=[route], **options)


def count_rows(folder: Path) -> int:
    with hi.connect_metastore(f"sqlite:///{folder}/metastore.db") as client:
        return sum(batch.num_rows for batch in hi.scan(client, "bench.events", columns=["id"]))


def latency_child(servers: str, topic: str, folder: Path) -> None:
    """Ingest until stdin ends; print the time and the rows of each commit."""
    create_table(folder)
    running = new_ingest(
        *(servers, topic, "latency", folder),
        max_seconds=1.0,
        on_commit=lambda info: print(json.dumps([time.time(), info.rows]), flush=True),
    )
    threading.Thread(target=lambda: (sys.stdin.read(), running.stop()), daemon=True).start()
    print("ready", flush=True)
    running.run()


def child(side: str, servers: str, topic: str) -> None:
    run: dict[str, Callable[[str, str, str, Path], int]] = {
        "poll": poll,
        "plain": plain,
        "ingest": ingest,
        "confluent": functools.partial(ingest, client="confluent-kafka"),
    }
    pa.array([0])  # where pandas is installed, pyarrow loads it at the first call
    with tempfile.TemporaryDirectory(prefix="hive-ingest-bench-") as folder:
        is_ingest = side in ("ingest", "confluent")
        if is_ingest:
            create_table(Path(folder))
        start, cpu_start = time.perf_counter(), time.process_time()
        count = run[side](servers, topic, f"{side}-{time.time_ns()}", Path(folder))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_start
        if is_ingest:
            count = min(count, count_rows(Path(folder)))
    assert count == MESSAGES, f"{side}: {count:,} of {MESSAGES:,} messages"
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "rss_mib": rss_mib}))


# -- the parts -----------------------------------------------------------------------------------------


def fill(servers: str, topic: str) -> float:
    """Produce the messages; returns their mean size."""
    rng = random.Random(20)
    producer = KafkaProducer(bootstrap_servers=servers, batch_size=256 << 10, linger_ms=50)
    size = 0
    for number in range(MESSAGES):
        value = message(rng, number)
        size += len(value)
        producer.send(topic, value, partition=number % PARTITIONS)
    producer.close()
    return size / MESSAGES


def throughput(broker: Any, sides: Sequence[str], runs: int) -> None:
    if "plain" in sides and importlib.util.find_spec("orjson") is None:
        raise SystemExit("the plain consumer needs orjson: pip install orjson")
    topic = broker.new_topic(partitions=PARTITIONS)
    print(f"producing {MESSAGES:,} messages …", file=sys.stderr)
    size = fill(broker.bootstrap_servers, topic)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for number in range(runs):
        for side in sides:
            found[side].append(run_child(side, broker.bootstrap_servers, topic))
            print(f"run {number + 1}, {side}: {found[side][-1]['seconds']:.1f} s", file=sys.stderr)
    print(f"\n{MESSAGES:,} messages of {size:.0f} bytes, {PARTITIONS} partitions, median of {runs} runs")
    print(f"{'':10} {'messages/s':>12} {'wall s':>8} {'processor s':>12} {'RSS MiB':>8} {'to ' + sides[0]:>17}")
    rates = {}
    for side in sides:
        seconds, cpu, rss = (
            statistics.median(run[key] for run in found[side]) for key in ("seconds", "cpu", "rss_mib")
        )
        rates[side] = MESSAGES / seconds
        ratio = rates[side] / rates[sides[0]]
        print(f"{side:10} {rates[side]:12,.0f} {seconds:8.1f} {cpu:12.1f} {rss:8.0f} {ratio:17.2f}")
    print(f"to reach: ingest at {TO_REACH} of polling alone")


def run_child(side: str, servers: str, topic: str) -> dict[str, float]:
    command = [sys.executable, __file__, "child", "--side", side, "--servers", servers, "--topic", topic]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def latency(broker: Any) -> None:
    topic = broker.new_topic(partitions=1)
    with tempfile.TemporaryDirectory(prefix="hive-ingest-bench-") as folder:
        command = [sys.executable, __file__, "latency-child", "--servers", broker.bootstrap_servers]
        process = subprocess.Popen(
            [*command, "--topic", topic, "--folder", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(5)  # until it has joined its group
        produced = produce_steadily(broker.bootstrap_servers, topic)
        commits: list[tuple[float, int]] = []
        while sum(rows for _, rows in commits) < len(produced):
            commits.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        process.wait()
    readable = [at for at, rows in commits for _ in range(rows)]
    assert len(readable) == len(produced), f"{len(readable):,} rows of {len(produced):,} messages"
    waits = sorted(end - start for start, end in zip(produced, readable, strict=True))
    p50, p99 = (waits[int(len(waits) * share)] for share in (0.5, 0.99))
    print(f"\nlatency at {LATENCY_RATE:,} messages/s, max_seconds=1, {len(waits):,} messages, {len(commits)} commits:")
    print(f"p50 {p50:.2f} s, p99 {p99:.2f} s, longest {waits[-1]:.2f} s; to reach: p99 {P99_TO_REACH} s")


def produce_steadily(servers: str, topic: str) -> list[float]:
    """When each message was sent, in the order of the offsets."""
    rng = random.Random(20)
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5)
    produced = []
    start = time.time()
    for number in range(LATENCY_RATE * LATENCY_SECONDS):
        time.sleep(max(0.0, start + number / LATENCY_RATE - time.time()))
        produced.append(time.time())
        producer.send(topic, message(rng, number))
    producer.close()
    return produced


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES, help="of throughput: what is compared")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each side (default: %(default)s)")
    parser.add_argument("part", nargs="?", choices=("throughput", "latency", "child", "latency-child"))
    for name in ("--side", "--servers", "--topic", "--folder"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part == "child":
        child(arguments.side, arguments.servers, arguments.topic)
    elif arguments.part == "latency-child":
        latency_child(arguments.servers, arguments.topic, Path(arguments.folder))
    else:
        from tests.services.kafka import running_broker

        with tempfile.TemporaryDirectory(prefix="hive-ingest-kafka-") as folder, running_broker(Path(folder)) as broker:
            if arguments.part in (None, "throughput"):
                throughput(broker, arguments.sides, arguments.runs)
            if arguments.part in (None, "latency"):
                latency(broker)


if __name__ == "__main__":
    main()
