"""Delete events hit exactly the rows that they name."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.orc.delete_events import DeleteEvents, RowIds

WRITE_IDS = st.sampled_from([1, 2, 3, 2**62])
BUCKETS = st.sampled_from([0x20000000, 0x20000001, 0x2FFF0FFF, 0])
ROW_IDS = st.one_of(st.integers(0, 6), st.sampled_from([2**40, 2**62]))
IDS = st.lists(st.tuples(WRITE_IDS, BUCKETS, ROW_IDS), max_size=40)


def row_ids(ids):
    return RowIds(
        np.array([i[0] for i in ids], np.int64),
        np.array([i[1] for i in ids], np.int32),
        np.array([i[2] for i in ids], np.int64),
    )


@given(IDS, IDS)
def test_a_row_is_deleted_if_and_only_if_an_event_names_it(events, rows):
    hits = DeleteEvents(row_ids(events)).hits(row_ids(rows))
    assert hits.tolist() == [row in set(events) for row in rows]


@given(IDS, IDS)
def test_sorted_rows_are_deleted_as_unsorted_ones_are(events, rows):
    rows.sort()
    assert DeleteEvents(row_ids(events)).hits(row_ids(rows)).tolist() == [row in set(events) for row in rows]


def test_a_hundred_thousand_events_among_a_million_rows():
    rows = RowIds(np.full(10**6, 7), np.full(10**6, 536870912, np.int32), np.arange(10**6))
    every_tenth = np.arange(10**6) % 10 == 3
    assert (DeleteEvents(rows.select(every_tenth)).hits(rows) == every_tenth).all()


def test_row_ids_are_concatenated_and_no_parts_give_no_row_ids():
    assert len(RowIds.concat([])) == 0
    joined = RowIds.concat([row_ids([(1, 2, 3)]), row_ids([]), row_ids([(4, 5, 6)])])
    assert (joined.write_ids.tolist(), joined.buckets.tolist(), joined.row_ids.tolist()) == ([1, 4], [2, 5], [3, 6])
