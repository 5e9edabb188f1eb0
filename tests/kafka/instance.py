"""An instance of an ingest that can be killed: run as `python instance.py <its options as JSON>`.

The fault to die of is in the environment. Prints a line when it has positions, and one for each commit.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from typing import Any

import hive_ingest as hi
from hive_ingest.connection import CommitInfo
from hive_ingest.streaming.kafka import DeadLetterTopic, KafkaIngest, KafkaRoute, MessageColumns
from hive_ingest.testing import arm_from_environment

COLUMNS = MessageColumns(partition="kafka_partition", offset="kafka_offset")


def told(info: CommitInfo) -> None:
    print(f"committed {info.rows}", flush=True)


def _parsing(given: dict[str, Any]) -> dict[str, Any]:
    """The record writer of a route, and where its bad messages go."""
    letters = given.get("dead_letters")
    if letters is None:
        return {"record_writer": hi.StrictJsonWriter()}
    handler = DeadLetterTopic(letters["servers"], letters["topic"], timeout_seconds=letters["timeout_seconds"])
    return {"record_writer": hi.StrictJsonWriter(on_error="skip"), "bad_records": handler}


def main(given: dict[str, Any]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    client = hi.connect_metastore(
        given["metastore"], warehouse=given["warehouse"], **given.get("metastore_options", {})
    )
    ingest = KafkaIngest(
        metastore=client,
        bootstrap_servers=given["servers"],
        group_id=given["group"],
        routes=[
            KafkaRoute(topic=topic, table=table, columns=COLUMNS, **_parsing(given))
            for topic, table in given["routes"].items()
        ],
        kafka_options={"session_timeout_ms": 2_000, "heartbeat_interval_ms": 300, **given.get("kafka_options", {})},
        on_commit=told,
        **{"max_rows": 50, "max_seconds": 1.0, "takeover_grace_seconds": 0.5, **given.get("options", {})},
    )
    signal.signal(signal.SIGTERM, lambda *_: ingest.stop())
    arm_from_environment()
    print("started", flush=True)
    ingest.run(until_end=given.get("until_end", False))
    client.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
