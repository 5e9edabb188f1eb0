"""A line of the file has all of a bad message."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hive_ingest.errors import StreamingIOFailure
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


@contextmanager
def largest_file(nbytes: int) -> Iterator[None]:
    """For the system, a file that is too large fails as one on a full disk does: after a part of the data."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("is_restarted", [True, False])
def test_a_line_that_a_full_disk_has_cut_off_spoils_no_other(tmp_path: Path, is_restarted: bool) -> None:
    path, message = tmp_path / "dead.jsonl", KafkaMessage("t", 1, 2, value=b"x" * 1_000_000)
    with DeadLetterFile(path) as file:
        file.handle([BadRecord(0, "first", message)])
        with largest_file(path.stat().st_size + 100), pytest.raises(StreamingIOFailure):
            file.handle([BadRecord(1, "second", message)])
        if not is_restarted:
            file.handle([BadRecord(1, "again", message)])
    if is_restarted:
        with DeadLetterFile(path) as file:
            file.handle([BadRecord(1, "again", message)])
    first, cut_off, again = path.read_text().splitlines()
    assert len(cut_off) == 100
    assert [json.loads(line)["reason"] for line in (first, again)] == ["first", "again"]
