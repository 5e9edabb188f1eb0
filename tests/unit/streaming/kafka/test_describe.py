"""What errors of the Kafka client say to do."""

from __future__ import annotations

from kafka.errors import InconsistentGroupProtocolError, KafkaTimeoutError, UnsupportedCodecError

from hive_ingest.streaming.kafka.group_consumer import describe


def test_errors_that_a_user_can_mend_say_how() -> None:
    codec = UnsupportedCodecError("Libraries for lz4 compression codec not found")
    assert describe(codec) == (
        "UnsupportedCodecError: Libraries for lz4 compression codec not found: the extra installs them: pip install "
        "'hive-ingest[kafka]'"
    )
    assert describe(InconsistentGroupProtocolError()).endswith("give the ingest a group_id of its own")


def test_other_errors_are_described_with_their_name() -> None:
    assert describe(KafkaTimeoutError("no answer")) == "KafkaTimeoutError: no answer"
