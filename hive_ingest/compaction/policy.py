"""Decides whether a partition needs a compaction, from what its folder holds. Pure: no clock, no file, no metastore.

The rules are those of Hive's initiator (`Initiator.determineCompactionType`), with two more: many small files, and
deltas that have waited for long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from hive_ingest.acid import BaseName
from hive_ingest.compaction.folder_state import FILE_OVERHEAD_BYTES, FolderState, content_bytes
from hive_ingest.compaction.kept_delta import MOST_DELTAS_LEFT
from hive_ingest.config import MIB
from hive_ingest.errors import ConfigurationError
from hive_ingest.model import CompactionType
from hive_ingest.plurals import counted

_THRESHOLD = "compactorthreshold."
_DELTA_NUM = f"{_THRESHOLD}hive.compactor.delta.num.threshold"
_DELTA_PCT = f"{_THRESHOLD}hive.compactor.delta.pct.threshold"
_LONGEST_REST_SECONDS = 5.0
_NO_AUTO_COMPACTION, _NO_CLEANUP = "no_auto_compaction", "no_cleanup"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to compact, and why or why not.

    Attributes:
        type: None where nothing is to be done.
        reason: For people.
        may_keep_large_delta: A minor compaction need not merge the large result of an earlier one again (`KeptDelta`):
            the deltas that it leaves are below the policy's threshold.
    """

    type: CompactionType | None
    reason: str
    may_keep_large_delta: bool = False


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """When a table or partition is compacted.

    The defaults suit streaming, where deltas come every few seconds: a reader opens at most about five deltas beside
    the base. Hive's own, made for a few large statements an hour, are `CompactionPolicy.hive()`. The properties
    `compactorthreshold.hive.compactor.delta.num.threshold` and `….delta.pct.threshold` of a table override
    `max_deltas` and `max_delta_share`, and `NO_AUTO_COMPACTION=true` switches it off.

    Attributes:
        max_deltas: More deltas and delete deltas than this are merged: by a minor compaction, or by a major one where
            there is no base yet.
        max_delta_share: When deltas have more bytes than this share of the base, a major compaction follows. The lower
            it is, the more often a base is written again. Large stripes are copied, so this is cheaper than in Hive,
            where it is 0.1.
        file_overhead_bytes: So many bytes of each file in deltas do not count for that: they are metadata, and a merge
            leaves them out. Otherwise commits of a few rows would have a base written again each time whose rows take
            a hundred times the space of theirs.
        min_deltas: Fewer deltas than this are left alone, however large they are beside a small base.
        max_small_files: More files below `small_file_bytes` than this in deltas are merged. None: any number.
        small_file_bytes: Below this size a file is small.
        max_age_seconds: Two deltas or more are merged when the last compaction, or the first look at the partition,
            is older than this. None: they may wait.
        max_time_share: The share of the time that compactions of one table or partition take, where rows come without
            pause: the next one is requested so much later. At most 5 s, so that deltas do not become too many. 1: at
            once.
        aborted_threshold: More aborted transactions than this that may have left rows cause a major compaction.
        aborted_age_seconds: One that began longer ago causes a minor compaction. None: age does not count.
        failed_threshold: After this number of failures in a row no compaction is requested for a while.
        failed_retry_seconds: How long.
    """

    max_deltas: int = 5
    max_delta_share: float = 0.25
    file_overhead_bytes: int = FILE_OVERHEAD_BYTES
    min_deltas: int = 2
    max_small_files: int | None = 64
    small_file_bytes: int = 16 * MIB
    max_age_seconds: float | None = None
    max_time_share: float = 1.0
    aborted_threshold: int = 100
    aborted_age_seconds: float | None = 12 * 3600.0
    failed_threshold: int = 2
    failed_retry_seconds: float = 3600.0

    def __post_init__(self) -> None:
        optional = ("max_small_files", "max_age_seconds", "aborted_age_seconds")
        for name in (field.name for field in fields(self)):
            value, least = getattr(self, name), 1 if name == "failed_threshold" else 0
            if value is None and name in optional:
                continue
            if not (isinstance(value, int | float) and not isinstance(value, bool) and least <= value < math.inf):
                raise ConfigurationError(f"CompactionPolicy({name}={value!r}): give a number of at least {least}")
        if not 0 < self.max_time_share <= 1:
            raise ConfigurationError(
                f"CompactionPolicy(max_time_share={self.max_time_share!r}): give a number above 0, and at most 1"
            )

    @classmethod
    def hive(cls) -> CompactionPolicy:
        """The defaults of Hive 4."""
        return cls(
            max_deltas=10,
            max_delta_share=0.1,
            file_overhead_bytes=0,
            min_deltas=1,
            max_small_files=None,
            aborted_threshold=1000,
            failed_retry_seconds=7 * 86_400.0,
        )

    def rest_seconds(self, took_seconds: float) -> float:
        """How long a table or partition is left alone after a compaction that took so long."""
        return min(_LONGEST_REST_SECONDS, took_seconds * (1 / self.max_time_share - 1))

    def decide(
        self,
        state: FolderState,
        properties: Mapping[str, str] | None = None,
        *,
        seconds_since_last: float | None = None,
    ) -> Decision:
        """What the folder of a table or partition needs.

        Args:
            state: As the compactor's snapshot sees it, which ends below the lowest open write id.
            properties: Of the table.
            seconds_since_last: Since the last compaction. None: not known.

        Raises:
            ConfigurationError: A threshold in the properties is not a number.
        """
        properties = properties or {}
        if has_no_auto_compaction(properties):
            return Decision(None, "the table has NO_AUTO_COMPACTION=true")
        max_deltas = int(_number(properties, _DELTA_NUM, self.max_deltas))
        max_share = _number(properties, _DELTA_PCT, self.max_delta_share)
        has_base = state.base_bytes > 0 or not state.delta_bytes
        by_size = self._by_size(state, max_share) if has_base else None
        if by_size is not None:
            return by_size
        return self._by_number(state, max_deltas, has_base=has_base, seconds_since_last=seconds_since_last)

    def _by_size(self, state: FolderState, max_share: float) -> Decision | None:
        bases = _obsolete_bases(state)
        if not state.delta_bytes and bases:
            return Decision(CompactionType.MAJOR, counted(bases, "obsolete base"))
        if not state.base_bytes or state.delta_count < self.min_deltas:
            return None
        sizes = (size for folder in (*state.deltas, *state.delete_deltas) for size in folder.file_bytes)
        share = content_bytes(sizes, self.file_overhead_bytes) / state.base_bytes
        if share <= max_share:
            return None
        return Decision(CompactionType.MAJOR, f"deltas have {share:.0%} of the base's bytes (> {max_share:.0%})")

    def _by_number(
        self, state: FolderState, max_deltas: int, *, has_base: bool, seconds_since_last: float | None
    ) -> Decision:
        kind = CompactionType.MINOR if has_base else CompactionType.MAJOR
        base = "" if has_base else ", and there is no base"
        count = state.delta_count
        small = sum(folder.small_files(self.small_file_bytes) for folder in (*state.deltas, *state.delete_deltas))
        if count > max_deltas:
            may_keep = kind is CompactionType.MINOR and max_deltas >= MOST_DELTAS_LEFT
            return Decision(kind, f"{counted(count, 'delta')} (> {max_deltas}){base}", may_keep)
        if count > 1 and self.max_small_files is not None and small > self.max_small_files:
            return Decision(kind, f"{counted(small, 'small file')} in deltas (> {self.max_small_files}){base}")
        if count > 1 and self.max_age_seconds is not None and (seconds_since_last or 0) > self.max_age_seconds:
            return Decision(kind, f"{count} deltas have waited for {seconds_since_last:.0f} s{base}")
        return Decision(
            None, f"{counted(count, 'delta')} of {state.delta_bytes} bytes beside {state.base_bytes}: below thresholds"
        )


def has_no_auto_compaction(properties: Mapping[str, str]) -> bool:
    """Whether a table is marked `NO_AUTO_COMPACTION=true`."""
    return _is_set(properties, _NO_AUTO_COMPACTION)


def has_no_cleanup(properties: Mapping[str, str]) -> bool:
    """Whether a table or partition is marked `NO_CLEANUP=true`."""
    return _is_set(properties, _NO_CLEANUP)


def _is_set(properties: Mapping[str, str], name: str) -> bool:
    """Whether a property is `true`; its name is known in lower and in upper case, as in Hive."""
    return any(properties.get(key, "").lower() == "true" for key in (name.lower(), name.upper()))


def _obsolete_bases(state: FolderState) -> int:
    return sum(name.startswith(BaseName.PREFIX) for name in state.obsolete)


def _number(properties: Mapping[str, str], name: str, default: float) -> float:
    text = properties.get(name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ConfigurationError(f"table property {name}={text!r} is not a number of at least 0: set it again")
    return number
