"""Data frames of polars and pandas, and dataclasses, are appended with every value, null and type that they have."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.errors import ConfigurationError, SerializationError
from hive_ingest.metastore_client import MetastoreClient

pytestmark = pytest.mark.one_embedded

TABLE = "web.frames"
DAY, TIME = dt.date(2026, 11, 23), dt.datetime(2026, 11, 23, 5, 50, 0, 123456)


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    return metastore


def types_of(client: MetastoreClient) -> dict[str, str]:
    return {column.name: column.type for column in client.get_table(TABLE).columns}


# -- polars ------------------------------------------------------------------------------------------


def polars_frame() -> pl.DataFrame:
    """A value and a null of each type; texts have the layout of string views, lists that of large lists."""
    return pl.DataFrame(
        {
            "flag": pl.Series([True, None]),
            "small": pl.Series([-1, None], dtype=pl.Int8),
            "big": pl.Series([2**63 - 1, None], dtype=pl.Int64),
            "unsigned": pl.Series([2**32 - 1, None], dtype=pl.UInt32),
            "half": pl.Series([0.5, None], dtype=pl.Float32),
            "amount": pl.Series([Decimal("12345678901234567890.12"), None], dtype=pl.Decimal(30, 2)),
            "name": pl.Series(["a text of more than twelve bytes, ü", None]),
            "kind": pl.Series(["x", None], dtype=pl.Categorical),
            "colour": pl.Series(["red", None], dtype=pl.Enum(["red", "blue"])),
            "data": pl.Series([b"\x00\xff", None]),
            "day": pl.Series([DAY, None]),
            "at": pl.Series([TIME, None], dtype=pl.Datetime("us")),
            "tags": pl.Series([["a", None], None], dtype=pl.List(pl.String)),
            "place": pl.Series([{"x": 1, "y": ["b"]}, None]),
        }
    )


def test_python_objects_in_a_frame_of_polars_are_refused(ms: MetastoreClient) -> None:
    """Their addresses in memory were stored."""
    frame = pl.DataFrame({"id": [1], "key": [uuid.UUID(int=1)]})
    with pytest.raises(ConfigurationError, match=r"column 'key' has Python objects.*convert them first"):
        ms.create_table(TABLE, schema=frame)
    with pytest.raises(SerializationError, match="column 'key' has Python objects"):
        hi.append(ms, TABLE, frame, create=True)
    ms.create_table(TABLE, columns={"id": "bigint", "key": "binary"})
    with pytest.raises(SerializationError, match="column 'key' has Python objects"):
        hi.append(ms, TABLE, frame)
    hi.append(ms, TABLE, frame.with_columns(key=pl.lit(b"\x01")))
    assert hi.read_table(ms, TABLE).to_pylist() == [{"id": 1, "key": b"\x01"}]


def test_a_frame_of_polars_makes_a_table_and_comes_back(ms: MetastoreClient) -> None:
    frame = polars_frame()
    hi.append(ms, TABLE, frame, create=True)
    assert types_of(ms) == {
        "flag": "boolean",
        "small": "tinyint",
        "big": "bigint",
        "unsigned": "bigint",
        "half": "float",
        "amount": "decimal(30,2)",
        "name": "string",
        "kind": "string",
        "colour": "string",
        "data": "binary",
        "day": "date",
        "at": "timestamp",
        "tags": "array<string>",
        "place": "struct<x:bigint,y:array<string>>",
    }
    found = pl.DataFrame(hi.read_table(ms, TABLE))
    assert found.with_columns(pl.col("at").dt.cast_time_unit("us")).rows() == frame.rows()


@pytest.mark.parametrize("slices", [(0, 1), (1, 1), (0, 2)])
def test_parts_and_many_chunks_of_a_frame_are_appended_whole(ms: MetastoreClient, slices: tuple[int, int]) -> None:
    part = polars_frame().slice(*slices)
    frame = pl.concat([part, part], rechunk=False)
    hi.append(ms, TABLE, frame, create=True)
    assert pl.DataFrame(hi.read_table(ms, TABLE)).select("big", "name").rows() == frame.select("big", "name").rows()


def test_columns_of_polars_that_hive_has_no_type_for_are_named(ms: MetastoreClient) -> None:
    ms.create_table(TABLE, columns={"id": "int", "at": "timestamp"})
    zoned = pl.DataFrame({"id": pl.Series([1], dtype=pl.Int32), "at": pl.Series([TIME]).dt.replace_time_zone("UTC")})
    with pytest.raises(SerializationError, match=r"'at'.*time zone"):
        hi.append(ms, TABLE, zoned)
    hi.append(ms, TABLE, zoned, zoned_timestamps="local")
    with pytest.raises(SerializationError, match="'at'"):
        hi.append(ms, TABLE, pl.DataFrame({"id": [1], "at": [dt.time(5)]}))
    assert hi.read_table(ms, TABLE)["id"].to_pylist() == [1]


def test_a_lazy_frame_is_refused_with_what_to_do(ms: MetastoreClient) -> None:
    ms.create_table(TABLE, columns={"id": "bigint"})
    with pytest.raises(SerializationError, match=r"LazyFrame.*collect\(\)"):
        hi.append(ms, TABLE, pl.LazyFrame({"id": [1]}))


# -- pandas ------------------------------------------------------------------------------------------


def test_nullable_columns_of_pandas_make_a_table_and_come_back(ms: MetastoreClient) -> None:
    frame = pd.DataFrame(
        {
            "big": pd.array([2**53 + 1, None], "Int64"),
            "small": pd.array([-1, None], "Int8"),
            "flag": pd.array([True, None], "boolean"),
            "half": pd.array([0.5, None], "Float64"),
            "name": pd.array(["a", None], "string"),
            "kind": pd.Categorical(["x", None]),
            "amount": pd.array([Decimal("1.50"), None], pd.ArrowDtype(pa.decimal128(10, 2))),
            "tags": pd.array([["a"], None], pd.ArrowDtype(pa.list_(pa.string()))),
            "at": pd.array([TIME, pd.NaT], "datetime64[us]"),
        },
        index=[7, 8],
    )
    hi.append(ms, TABLE, frame, create=True)
    first = {"big": 2**53 + 1, "small": -1, "flag": True, "half": 0.5, "name": "a", "kind": "x", "tags": ["a"]}
    first |= {"amount": Decimal("1.50"), "at": TIME}
    assert hi.read_table(ms, TABLE).to_pylist() == [first, dict.fromkeys(first)]
    assert types_of(ms) == {
        "big": "bigint",
        "small": "tinyint",
        "flag": "boolean",
        "half": "double",
        "name": "string",
        "kind": "string",
        "amount": "decimal(10,2)",
        "tags": "array<string>",
        "at": "timestamp",
    }


# -- dataclasses -------------------------------------------------------------------------------------


@dataclass
class Item:
    name: str
    price: Decimal


@dataclass
class Order:
    id: int
    at: dt.datetime | None = None
    items: list[Item] = field(default_factory=list)
    first: Item | None = None


def test_nested_dataclasses_are_rows_with_structs_and_arrays(ms: MetastoreClient) -> None:
    item = Item("disk", Decimal("9.90"))
    orders = [Order(1, TIME, [item, Item("cpu", Decimal("1.00"))], item), Order(2)]
    hi.append(ms, TABLE, orders, create=True)
    price = types_of(ms)["first"].removeprefix("struct<name:string,price:").removesuffix(">")
    assert price.startswith("decimal(")
    assert types_of(ms)["items"] == f"array<struct<name:string,price:{price}>>"
    disk: dict[str, Any] = {"name": "disk", "price": Decimal("9.90")}
    assert hi.read_table(ms, TABLE).to_pylist() == [
        {"id": 1, "at": TIME, "items": [disk, {"name": "cpu", "price": Decimal("1.00")}], "first": disk},
        {"id": 2, "at": None, "items": [], "first": None},
    ]
