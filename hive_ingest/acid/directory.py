"""Selects the folders of a table or partition that a snapshot reads (Hive: `AcidUtils.getAcidState`).

A pure function from a listing and a snapshot to the base and the deltas. Obsolete and aborted folders are returned
too, for a cleaner. Nothing here opens or removes a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hive_ingest.acid.names import (
    BASE_METADATA_FILE,
    BaseName,
    DeleteDeltaName,
    DeltaName,
    is_hidden,
    parse_folder_name,
)
from hive_ingest.acid.write_ids import RangeResponse, ValidTxnList, ValidWriteIdList
from hive_ingest.errors import StreamingIOFailure
from hive_ingest.model import TxnId, WriteId

#: Write id of a base compacted from original files only (`Long.MIN_VALUE`): older than any transaction.
BEFORE_ALL_WRITE_IDS = WriteId(-(2**63))


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """One file or folder in the folder of a table or partition.

    `children`, the names in it, matters only for a `base_N` without a `_v` suffix: with `_metadata_acid` among
    them it is a compactor's of Hive 3.1, else an INSERT OVERWRITE's.
    """

    name: str
    is_folder: bool
    size_bytes: int = 0
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AcidDirectory:
    """The folders to read, by name: `base`, then deltas and delete deltas in Hive's order. The rest is for a cleaner.

    `original_files` and `original_folders` (not ACID folders) hold rows too. They are empty if there is a base.
    `obsolete` folders are covered by the folders to read. `aborted` folders hold only aborted writes.
    """

    base: BaseName | None = None
    deltas: tuple[DeltaName, ...] = ()
    delete_deltas: tuple[DeleteDeltaName, ...] = ()
    original_files: tuple[str, ...] = ()
    original_folders: tuple[str, ...] = ()
    obsolete: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()
    #: The write ids of the `aborted` folders, for a cleaner. Never includes open or unknown ones.
    aborted_write_ids: frozenset[WriteId] = frozenset()
    #: Whether a folder to read also holds aborted writes: they must not be forgotten before a compaction.
    has_uncompacted_aborts: bool = False


def acid_directory(
    entries: Iterable[ListedEntry],
    valid_write_ids: ValidWriteIdList,
    valid_txns: ValidTxnList,
    *,
    ignore_empty_files: bool = True,
) -> AcidDirectory:
    """Choose from a listing what the snapshot sees; the order of `entries` does not matter.

    `valid_txns` decides about folders with a `_v` suffix: they count once the compaction's transaction has
    committed. Raises CorruptFile for a name that only begins like Hive's, and StreamingIOFailure when a compactor's
    base includes write ids that are open in the snapshot (the snapshot is too old: read again with a new one).
    """
    state = _State(valid_write_ids, valid_txns)
    for entry in sorted(entries, key=lambda e: e.name):
        state.add(entry, ignore_empty_files)
    base = state.choose_base()
    deltas = state.choose_deltas(base)
    if base is not None:
        state.obsolete += [*state.original_files, *state.original_folders]
    return AcidDirectory(
        base=base,
        deltas=tuple(d for d in deltas if not isinstance(d, DeleteDeltaName)),
        delete_deltas=tuple(d for d in deltas if isinstance(d, DeleteDeltaName)),
        original_files=() if base else tuple(state.original_files),
        original_folders=() if base else tuple(state.original_folders),
        obsolete=tuple(state.obsolete),
        aborted=tuple(state.aborted),
        aborted_write_ids=frozenset(state.aborted_write_ids),
        has_uncompacted_aborts=state.has_uncompacted_aborts,
    )


@dataclass(frozen=True, slots=True)
class _Base:
    name: BaseName
    is_compacted: bool

    @property
    def rank(self) -> tuple[int, bool, int]:
        """Read the one with the highest write id; of two equal ones the compactor's, which includes the other."""
        return self.name.write_id, self.is_compacted, self.name.visibility_txn_id or 0


@dataclass(slots=True)
class _State:
    valid_write_ids: ValidWriteIdList
    valid_txns: ValidTxnList
    bases: list[_Base] = field(default_factory=list)
    deltas: list[DeltaName] = field(default_factory=list)
    original_files: list[str] = field(default_factory=list)
    original_folders: list[str] = field(default_factory=list)
    obsolete: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    aborted_write_ids: set[WriteId] = field(default_factory=set)
    has_uncompacted_aborts: bool = False

    def add(self, entry: ListedEntry, ignore_empty_files: bool) -> None:
        if is_hidden(entry.name):
            return
        if not entry.is_folder:
            if entry.size_bytes or not ignore_empty_files:
                self.original_files.append(entry.name)
            return
        name = parse_folder_name(entry.name)
        if name is None:
            self.original_folders.append(entry.name)
        elif self._is_visible(name.visibility_txn_id, entry.name):
            if isinstance(name, BaseName):
                self._add_base(name, entry)
            else:
                self._add_delta(name, entry)

    def _is_visible(self, visibility_txn_id: TxnId | None, name: str) -> bool:
        if visibility_txn_id is None or self.valid_txns.is_valid(visibility_txn_id):
            return True
        if self.valid_txns.is_aborted(visibility_txn_id):
            self.aborted.append(name)
        return False

    def _add_base(self, name: BaseName, entry: ListedEntry) -> None:
        is_compacted = name.visibility_txn_id is not None or BASE_METADATA_FILE in entry.children
        if not is_compacted and self.valid_write_ids.is_aborted(name.write_id):
            self.aborted.append(entry.name)
            self.aborted_write_ids.add(name.write_id)
        else:
            self.bases.append(_Base(name, is_compacted))

    def _add_delta(self, name: DeltaName, entry: ListedEntry) -> None:
        low, high = name.min_write_id, name.max_write_id
        aborted = self.valid_write_ids.is_range_aborted(low, high)
        if aborted is RangeResponse.ALL:
            self.aborted.append(entry.name)
            self.aborted_write_ids.update(WriteId(i) for i in range(low, high + 1))
            return
        self.has_uncompacted_aborts |= aborted is RangeResponse.SOME
        if self.valid_write_ids.is_range_valid(low, high) is not RangeResponse.NONE:
            self.deltas.append(name)

    def choose_base(self) -> BaseName | None:
        usable = sorted((base for base in self.bases if self._is_valid(base)), key=lambda base: base.rank)
        if not usable:
            self._check_history()
            return None
        *covered, best = usable
        self.obsolete += [str(base.name) for base in covered]
        return best.name

    def _is_valid(self, base: _Base) -> bool:
        """Whether a base is valid: a compactor's may include no open write id; an overwrite's must be committed.

        Hive takes any base at or below the lowest open write id for valid, also an overwrite that *is* the lowest
        open one: a dirty read, which this code avoids.
        """
        if base.name.write_id == BEFORE_ALL_WRITE_IDS:
            return True
        if base.is_compacted:
            return self.valid_write_ids.is_valid_base(base.name.write_id)
        return self.valid_write_ids.is_valid(base.name.write_id)

    def _check_history(self) -> None:
        compacted = [base for base in self.bases if base.is_compacted]
        if compacted:
            oldest = min(compacted, key=lambda base: base.rank)
            raise StreamingIOFailure(
                f"{oldest.name} holds write ids that are open in the snapshot "
                f"{self.valid_write_ids.to_string()}: the snapshot is too old, read again with a new one"
            )

    def choose_deltas(self, base: BaseName | None) -> list[DeltaName]:
        """Select the widest deltas that cover every valid write id above the base once, and delete deltas likewise.

        A minor compaction merges deltas and delete deltas of one range together. Hive 4 makes both folders visible
        with one commit, so either one makes every narrower folder of both kinds obsolete. Hive 3.1 renames one after
        the other: between the two a wide delete delta has no delta beside it yet, and the rows are in the narrower
        ones. Hive's own reader misses them at that moment. So a folder without the suffix `_v` speaks for its own kind.
        """
        chosen: list[DeltaName] = []
        covers = {DeltaName: _Cover(base), DeleteDeltaName: _Cover(base)}
        for delta in sorted(self.deltas, key=_hive_order):
            cover = covers[type(delta)]
            if delta.max_write_id > cover.write_id:
                first = WriteId(cover.write_id + 1)
                if self.valid_write_ids.is_range_valid(first, delta.max_write_id) is RangeResponse.NONE:
                    continue
                for each in covers.values() if delta.visibility_txn_id else (cover,):
                    each.extend(delta)
            elif not cover.is_completed_by(delta):
                self.obsolete.append(str(delta))
                continue
            chosen.append(delta)
        return chosen


class _Cover:
    """Up to which write id one kind of folder, deltas or delete deltas, has been chosen."""

    def __init__(self, base: BaseName | None) -> None:
        self.write_id: int = base.write_id if base else 0
        self.statement_id: int | None = None
        #: What covers the last write ids, of either kind.
        self._widest: DeltaName | None = None

    def extend(self, delta: DeltaName) -> None:
        if delta.max_write_id > self.write_id:
            self.write_id, self.statement_id, self._widest = delta.max_write_id, delta.statement_id, delta

    def is_completed_by(self, delta: DeltaName) -> bool:
        """Whether it is another statement of the same transaction, or the other folder of the same compaction."""
        if delta.max_write_id == self.write_id and self.statement_id is not None:
            return True
        return self._widest is not None and _is_same_compaction(delta, self._widest)


def _hive_order(delta: DeltaName) -> tuple[int, int, int, int, str]:
    """The order of `ParsedDeltaLight.compareTo`: wider before narrower, without a statement id first, then by path.

    Of two compactions of the same range, the later one comes first (HIVE-29210). The paths of two folders with the
    same ids differ in the prefix only.
    """
    statement_id = -1 if delta.statement_id is None else delta.statement_id
    later_first = -(delta.visibility_txn_id or 0)
    return delta.min_write_id, -delta.max_write_id, statement_id, later_first, delta.PREFIX


def _is_same_compaction(one: DeltaName, other: DeltaName) -> bool:
    """A delta and a delete delta of the same range and transaction."""
    return type(one) is not type(other) and (
        (one.min_write_id, one.max_write_id, one.statement_id, one.visibility_txn_id)
        == (other.min_write_id, other.max_write_id, other.statement_id, other.visibility_txn_id)
    )
