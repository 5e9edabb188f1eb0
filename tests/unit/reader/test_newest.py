"""The newest rows come first, for readers that stop at the first matches."""

import pyarrow.orc as orc
import pytest

from hive_ingest.model import TableName
from hive_ingest.reader.newest import newest_rows

pytestmark = pytest.mark.one_embedded

ROWS = 30_000


def test_rows_come_by_descending_delta_and_within_a_compacted_one_by_descending_stripe(metastore, make_table, struct):
    """Else the last commits in a large compacted file would be passed over for the first ones."""
    table = make_table()
    first, second = table.commit(), table.commit()
    numbers = list(range(ROWS))
    rows = struct(id=numbers, msg=[f"{number * 7919 % ROWS:09d}" for number in numbers])
    path = table.insert(first, rows, stripe_size=1 << 16, batch_size=1_000)
    table.insert(second, struct(id=[ROWS], msg=["last"]))
    assert orc.ORCFile(path).nstripes > 1

    name = TableName("web", "t")
    batches = newest_rows(metastore, table.table, metastore.get_valid_write_ids([name])[0])
    ids = [batch["id"].to_pylist() for batch in batches]

    assert ids[0] == [ROWS]
    assert [of_stripe[-1] for of_stripe in ids[1:]] == sorted((of_stripe[-1] for of_stripe in ids[1:]), reverse=True)
    assert sorted(number for of_stripe in ids for number in of_stripe) == list(range(ROWS + 1))
