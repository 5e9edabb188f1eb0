"""What both metastores do with compactions in the same way: Hive's text form of properties, and its history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hive_ingest.model import CompactionInfo, CompactionState

#: Their result can be read: the cleaner has only the old files left to remove.
_COMMITTED = (CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED)
_ENDED = (CompactionState.FAILED, CompactionState.SUCCEEDED, CompactionState.REFUSED, CompactionState.ABORTED)


def to_stringable_map(properties: Mapping[str, str]) -> str | None:
    """As Hive stores them in CQ_TBLPROPERTIES (`StringableMap`): their number, then each text after its length."""
    if not properties:
        return None
    texts = (text for pair in properties.items() for text in pair)
    return f"{len(properties)}:" + "".join(f"{len(_to_java(text))}:{text}" for text in texts)


def from_stringable_map(text: str | None) -> dict[str, str]:
    """The properties of a text that Hive, or `to_stringable_map`, made."""
    if not text:
        return {}
    number, rest = _to_java(text).split(":", 1)
    texts = []
    for _ in range(2 * int(number)):
        length, rest = rest.split(":", 1)
        texts.append(_from_java(rest[: int(length)]))
        rest = rest[int(length) :]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _to_java(text: str) -> str:
    """With two surrogates for each character beyond 16 bits, as Java counts them."""
    units = text.encode("utf-16-le")
    return "".join(chr(low | high << 8) for low, high in zip(units[::2], units[1::2], strict=True))


def _from_java(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def latest_committed(
    newest_first: Iterable[CompactionInfo], partition_names: Sequence[str], after_id: int | None
) -> list[CompactionInfo]:
    """The newest compaction of each partition whose result can be read."""
    found: dict[str | None, CompactionInfo] = {}
    for info in newest_first:
        wanted = not partition_names or info.partition_name in partition_names
        if wanted and info.state in _COMMITTED and (after_id is None or info.id > after_id):
            found.setdefault(info.partition_name, info)
    return list(found.values())


def failed_too_often(
    newest_first: Iterable[CompactionInfo],
    partition_name: str | None,
    *,
    threshold: int,
    retry_seconds: float,
    now_ms: float,
) -> bool:
    """Whether the last `threshold` compactions all failed, the last of them less than `retry_seconds` ago (0: ever).

    Source: Hive 4's `CheckFailedCompactionsHandler`.
    """
    ended = [info for info in newest_first if info.partition_name == partition_name and info.state in _ENDED]
    last = ended[:threshold]
    if len(last) < threshold or any(info.state is not CompactionState.FAILED for info in last):
        return False
    enqueued_ms = max(info.enqueue_time_ms or 0 for info in last)
    is_to_be_retried = retry_seconds > 0 and enqueued_ms + retry_seconds * 1000 < now_ms
    return not is_to_be_retried
