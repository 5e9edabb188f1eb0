"""A line of the file has all of a bad message."""

from __future__ import annotations

import json
from pathlib import Path

from hive_ingest.record_writer import BadRecord
from hive_ingest.streaming.kafka import DeadLetterFile, KafkaMessage


def test_a_line_has_the_whole_message_and_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    with DeadLetterFile(path) as file:
        headers = (("a", b"1"), ("a", b"\xff"), ("b", None))
        file.handle([BadRecord(5, "why", KafkaMessage("t", 1, 2, 3, 0, b"\xff", b"ab\n", headers))])
        file.handle([BadRecord(6, "why not", KafkaMessage("t", 1, 3))])
        file.flush()
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first == {
        "topic": "t",
        "partition": 1,
        "offset": 2,
        "timestamp": 3,
        "reason": "why",
        "key_base64": "/w==",
        "value": "ab\n",
        "headers": [
            {"name": "a", "value": "1"},
            {"name": "a", "value_base64": "/w=="},
            {"name": "b", "value": None},
        ],
    }
    assert (second["key"], second["value"], second["timestamp"], second["headers"]) == (None, None, None, [])
