"""Snapshots: Hive's string form, and every question answered as a plain set of ids would answer it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.acid.write_ids import RangeResponse, ValidTxnList, ValidWriteIdList
from hive_ingest.errors import ConfigurationError
from hive_ingest.model import TableName, TxnId, WriteId

TABLE = TableName("web", "alerts")


def write_ids(hwm, open_=(), aborted=()):
    return ValidWriteIdList(TABLE, WriteId(hwm), tuple(sorted(open_)), tuple(sorted(aborted)))


@st.composite
def snapshots(draw):
    hwm = draw(st.integers(0, 20))
    states = draw(st.lists(st.sampled_from("coa"), min_size=hwm, max_size=hwm))
    ids = [[i for i, state in enumerate(states, 1) if state == wanted] for wanted in "coa"]
    return write_ids(hwm, ids[1], ids[2]), set(ids[0])


def response(count, total):
    return RangeResponse.NONE if count == 0 else RangeResponse.ALL if count == total else RangeResponse.SOME


@given(snapshots(), st.integers(1, 25), st.integers(0, 25))
def test_every_answer_matches_a_set_of_ids(snapshot, low, width):
    ids, committed = snapshot
    span = range(low, low + width + 1)
    assert [ids.is_valid(i) for i in span] == [i in committed for i in span]
    assert [ids.is_aborted(i) for i in span] == [i in set(ids.aborted) for i in span]
    assert ids.is_range_valid(span[0], span[-1]) is response(len(committed & set(span)), len(span))
    assert ids.is_range_aborted(span[0], span[-1]) is response(len(set(ids.aborted) & set(span)), len(span))
    assert ids.is_valid_base(low) == (low <= ids.high_water_mark and not any(i <= low for i in ids.open))


@given(snapshots(), st.lists(st.integers(1, 25)))
def test_the_mask_of_many_ids_is_the_answer_for_each(snapshot, asked):
    ids, committed = snapshot
    assert ids.valid_mask(np.array(asked, dtype=np.int64)).tolist() == [i in committed for i in asked]


@given(snapshots())
def test_the_string_form_is_the_same_in_both_directions(snapshot):
    ids, _ = snapshot
    assert ValidWriteIdList.from_string(ids.to_string()) == ids
    txns = ValidTxnList(TxnId(ids.high_water_mark), ids.open, ids.aborted)
    assert ValidTxnList.from_string(txns.to_string()) == txns


def test_the_string_form_is_hives():
    assert write_ids(9, [4, 7], [5]).to_string() == "web.alerts:9:4:4,7:5"
    assert write_ids(9).to_string() == "web.alerts:9:9223372036854775807::"
    assert ValidTxnList(TxnId(9), (TxnId(4),), (TxnId(5),)).to_string() == "9:4:4:5"


@given(snapshots())
def test_transactions_are_valid_as_write_ids_are(snapshot):
    ids, committed = snapshot
    txns = ValidTxnList(TxnId(ids.high_water_mark), ids.open, ids.aborted)
    assert [txns.is_valid(TxnId(i)) for i in range(1, 26)] == [i in committed for i in range(1, 26)]
    assert txns.min_open == min(ids.open, default=None) == ids.min_open


def test_a_compactor_sees_nothing_from_the_lowest_open_write_id_on():
    """Its only exceptions are aborted ones (Hive: `TxnUtils.createValidCompactWriteIdList`)."""
    name = TableName("web", "t")
    seen = ValidWriteIdList(name, WriteId(9), open=(WriteId(5), WriteId(7)), aborted=(WriteId(2), WriteId(6)))
    assert seen.for_compactor() == ValidWriteIdList(name, WriteId(4), aborted=(WriteId(2),))
    closed = ValidWriteIdList(name, WriteId(9), aborted=(WriteId(2), WriteId(6)))
    assert closed.for_compactor() == closed
    assert ValidWriteIdList(name, WriteId(3), open=(WriteId(1),)).for_compactor() == ValidWriteIdList(name, WriteId(0))


@given(snapshots())
def test_a_compactor_sees_a_part_of_what_readers_see(snapshot):
    ids, committed = snapshot
    compactor = ids.for_compactor()
    assert compactor.open == ()
    for i in range(1, 26):
        assert compactor.is_valid(WriteId(i)) == (i in committed and i <= compactor.high_water_mark)
        assert compactor.is_aborted(WriteId(i)) == (ids.is_aborted(WriteId(i)) and i <= compactor.high_water_mark)


def test_a_range_that_ends_above_the_high_water_mark_is_valid_only_below_it():
    assert write_ids(5).is_range_valid(4, 9) is RangeResponse.SOME
    assert write_ids(5, [5]).is_range_valid(5, 6) is RangeResponse.NONE
    assert write_ids(5).is_range_valid(6, 9) is RangeResponse.NONE


@pytest.mark.parametrize("text", ["", "a:b", "web.alerts:x:1::", "web.alerts:9:4:4,y:", "9:4:4"])
def test_a_text_that_is_not_a_snapshot_is_refused(text):
    with pytest.raises(ConfigurationError):
        ValidWriteIdList.from_string(text)
    with pytest.raises(ConfigurationError):
        ValidTxnList.from_string(text)
