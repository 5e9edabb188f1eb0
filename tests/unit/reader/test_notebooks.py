"""What a notebook shows of a scan and of sizes; nothing is read for it."""

from __future__ import annotations

from typing import Any

import pytest

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.reader import PartitionSize, PartitionSizes, partition_sizes, scan

pytestmark = pytest.mark.one_embedded


def test_a_scan_shows_its_columns_and_its_state(metastore: MetastoreClient, make_table: Any, struct: Any) -> None:
    table = make_table()
    table.insert(table.commit(), struct(id=[1, 2], msg=["a", "b"]))
    with scan(metastore, "web.t") as rows:
        assert repr(rows) == "<Scan of web.t: id int32, msg string>"
        html = rows._repr_html_()
        assert "<caption>Scan of web.t</caption>" in html
        assert '<tr><td style="text-align: left">id</td><td style="text-align: left">int32</td></tr>' in html
        assert rows.read_all().num_rows == 2, "showing it has read nothing"
        assert "Scan of web.t, read to its end" in rows._repr_html_()
    closed = scan(metastore, "web.t")
    closed.close()
    assert "Scan of web.t, closed" in repr(closed)


def test_sizes_are_a_list_with_totals(metastore: MetastoreClient, make_table: Any, struct: Any) -> None:
    table = make_table()
    table.insert(table.commit(), struct(id=[1, 2], msg=["a", "b"]))
    found = partition_sizes(metastore, "web.t")
    assert found == [found[0]]
    assert (found.rows, found.files, found.delete_events, found.is_exact) == (2, 1, 0, True)
    assert found.bytes == found[0].bytes > 0


def test_sizes_are_a_table_in_a_notebook_whatever_the_names_of_partitions() -> None:
    sizes = PartitionSizes(
        [
            PartitionSize("k=<b>", files=2, bytes=12_345, rows=1_000, delete_events=1, is_exact=False),
            PartitionSize("k=c", files=1, bytes=5, rows=1, delete_events=0, is_exact=True),
        ]
    )
    html = sizes._repr_html_()
    assert "k=&lt;b&gt;" in html
    assert "<b>" not in html
    assert "rows include deleted ones" in html
    assert html.count("<tr>") == 4
    assert ">12,350</td>" in html
    assert ">1,001</td>" in html
