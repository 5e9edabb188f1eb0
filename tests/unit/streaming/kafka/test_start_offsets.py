"""Where a partition is read from, and what is refused because messages are missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hive_ingest.errors import OffsetLoss, SinkConflict
from hive_ingest.streaming.kafka.options import KafkaOptions
from hive_ingest.streaming.kafka.positions import KnownPosition, OffsetMetadata, TopicPosition
from hive_ingest.streaming.kafka.start_offsets import CommittedOffset, LogRange, PartitionNow, start_position

ID, OTHER_ID = "id-1", "id-2"
METADATA = OffsetMetadata("events", 7, 0)


def now(
    start: int = 0,
    end: int = 100,
    *,
    topic_id: str | None = ID,
    partition: int = 0,
    partitions: int = 1,
    committed: CommittedOffset | None = None,
    truncated_at: int | None = None,
) -> PartitionNow:
    return PartitionNow(
        "events", partition, topic_id, partitions, LogRange(start, end), committed, truncated_at=truncated_at
    )


def known(offset: int, *, topic_id: str | None = ID, epoch: int = 0) -> KnownPosition:
    return KnownPosition(TopicPosition("events", 0, topic_id, offset, 1), epoch)


def start(
    where: PartitionNow, last: KnownPosition | None, known_partitions: int = 0, **options: str
) -> tuple[int, list[str]]:
    warnings: list[str] = []
    position = start_position(where, last, known_partitions, KafkaOptions(**options), warnings.append)  # type: ignore[arg-type]
    assert position.topic_id == where.topic_id
    return position.offset, warnings


@pytest.mark.parametrize("offset", [0, 42, 100])
def test_a_position_within_the_log_is_continued(offset: int) -> None:
    assert start(now(), known(offset)) == (offset, [])


def test_a_topic_begins_where_the_option_says() -> None:
    assert start(now(5), None) == (5, [])
    assert start(now(5), None, auto_offset_reset="latest") == (100, [])


def test_of_a_partition_that_was_added_nothing_is_left_out() -> None:
    added = now(partition=3, partitions=4)
    assert start(added, None, 3, auto_offset_reset="latest") == (0, [])
    assert start(now(partition=2, partitions=4), None, 3, auto_offset_reset="latest") == (100, [])


LOSSES = {
    "recreated": (now(topic_id=OTHER_ID), known(42), r"deleted and created again.*id-1.*id-2", 0, 100),
    "recreated and empty": (now(0, 0, topic_id=OTHER_ID), known(0), r"deleted and created again", 0, 0),
    "retention": (now(50), known(42), r"messages 42 to 49 were removed by retention", 50, 100),
    "shrunk": (now(0, 41), known(42), r"position is 42, and the topic ends at 41", 0, 41),
    "truncated": (now(truncated_at=40), known(42), r"messages 40 to 41.*no longer in the topic", 40, 100),
    "restored metastore": (
        now(committed=CommittedOffset(60, METADATA)),
        known(42),
        r"committed offset 60.*position is 42.*restored from an older copy",
        42,
        60,
    ),
    "progress dropped": (now(committed=CommittedOffset(60, METADATA)), None, r"no position.*was dropped", 0, 60),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_does_not_follow_on_the_position_is_explained_and_stops(loss: str) -> None:
    where, last, explanation, earliest, latest = LOSSES[loss]
    with pytest.raises(OffsetLoss, match=f"(?s){explanation}.*Nothing was skipped.*on_offset_loss"):
        start(where, last)
    for option, expected in (("earliest", earliest), ("latest", latest)):
        offset, warnings = start(where, last, on_offset_loss=option)
        assert offset == expected
        assert len(warnings) == 1


def test_a_truncation_above_the_position_is_not_a_loss() -> None:
    assert start(now(truncated_at=42), known(42)) == (42, [])


def test_a_seek_back_is_not_a_restored_metastore() -> None:
    assert start(now(committed=CommittedOffset(60, METADATA)), known(42, epoch=1)) == (42, [])


def test_the_leader_epoch_of_a_position_is_kept_and_that_of_another_place_is_not_invented() -> None:
    position = KnownPosition(TopicPosition("events", 0, ID, 42, 1, leader_epoch=7), 0)
    assert start_position(now(), position, 1, KafkaOptions(), print) == position.position
    moved = start_position(now(start=50), position, 1, KafkaOptions(on_offset_loss="earliest"), print)
    assert (moved.offset, moved.leader_epoch) == (50, -1)


def test_brokers_without_topic_ids_are_not_suspected() -> None:
    assert start(now(topic_id=None), known(42)) == (42, [])
    assert start(now(), known(42, topic_id=None)) == (42, [])


def test_a_position_is_read_as_it_was_stored_and_others_are_refused() -> None:
    position = TopicPosition("events", 3, ID, 42, 4, leader_epoch=7)
    assert TopicPosition.from_json("events-3", position.to_json()) == position
    of_an_older_release = {key: value for key, value in position.to_json().items() if key != "leader_epoch"}
    assert TopicPosition.from_json("events-3", of_an_older_release) == replace(position, leader_epoch=-1)
    for foreign in (
        None,
        42,
        {"offset": 42},
        {**position.to_json(), "partition": 2},
        position.to_json() | {"offset": "1"},
    ):
        with pytest.raises(SinkConflict, match="not a position in a topic"):
            TopicPosition.from_json("events-3", foreign)


def test_an_offset_that_another_program_committed_says_nothing() -> None:
    assert OffsetMetadata.parse(METADATA.to_text()) == METADATA
    for text in ("", None, "42", "{}", '{"hive-ingest": {}}', "[]"):
        assert OffsetMetadata.parse(text) is None
