"""Filters leave out stripes by the statistics that Hive wrote, and no row (see tests/data/hive)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Column, Table
from hive_ingest.reader import read_table
from hive_ingest.reader.where import parse_where
from hive_ingest.schema import parse_type
from tests.support.hive_tables import TABLES, register, unpack_all
from tests.support.metastores import connect_in

pytestmark = pytest.mark.one_embedded

#: Years that nanoseconds cannot hold, and tables that the reader refuses.
UNREADABLE = {"3.1.3/far", "4.0.1/far"}
MOST_VALUES = 8


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = unpack_all(tmp_path_factory.mktemp("hive_tables"))
    return {key: folder / key for key in TABLES}


@pytest.fixture
def metastore(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, metastore_uri) as client:
        client.create_database("h")
        yield client


def filters(column: Column, values: Any) -> Iterator[str]:
    """Conditions on a column with the values that it has."""
    yield f"`{column.name}` is null"
    yield f"`{column.name}` is not null"
    type_ = parse_type(column.type)
    if type_.children or type_.kind == "binary":
        return
    texts = pc.cast(pc.drop_null(pc.unique(values)), pa.string()).to_pylist()
    for text in texts[:MOST_VALUES]:
        literal = "'" + text.replace("'", "''") + "'"
        for sign in ("=", "<", ">=", "!="):
            yield f"`{column.name}` {sign} {literal}"


@pytest.mark.parametrize("key", sorted(set(TABLES) - UNREADABLE))
def test_a_filter_on_a_table_that_hive_wrote_loses_no_row(
    metastore: MetastoreClient, tables: dict[str, Path], key: str
) -> None:
    name = register(metastore, tables[key].parents[1], key)
    table: Table = metastore.get_table(name)
    columns = (*table.columns, *table.partition_keys)
    everything = read_table(metastore, name, row_ids=True)
    for column in columns:
        for where in filters(column, everything[column.name].combine_chunks()):
            expected = everything.filter(parse_where(where, columns).expression)
            found = read_table(metastore, name, row_ids=True, where=where)
            assert str(found.to_pylist()) == str(expected.to_pylist()), where
