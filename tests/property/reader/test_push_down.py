"""A filter that leaves out stripes by their statistics gives the rows that it gives after reading all of them."""

from __future__ import annotations

import datetime as dt
import operator
import tempfile
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hive_ingest.acid import ValidTxnList
from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.model import TxnId, WriteId
from hive_ingest.orc.writer.acid_writer import AcidOrcWriter
from hive_ingest.reader.partitions import PartitionToRead
from hive_ingest.reader.predicate import Predicate
from hive_ingest.reader.rows import Projection, Snapshot, full_schema, read_partition
from hive_ingest.reader.where import parse_where, stripes_of
from hive_ingest.schema import arrow_schema, arrow_type
from tests.unit.compaction.folders import STORE, Folder

TEXTS = ["", "a", "a\t", "a\tb", "ab", "abc", "b", "b ", "ba\x01", "é", "日本", "😀", "￿"]
DAYS = [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
TIMES = [
    dt.datetime(1677, 9, 22),
    dt.datetime(1900, 1, 1, 0, 0, 0, 1),
    dt.datetime(1969, 12, 31, 23, 59, 58, 999_999),
    dt.datetime(1969, 12, 31, 23, 59, 59),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999),
    dt.datetime(1970, 1, 1),
    dt.datetime(1970, 1, 1, 0, 0, 0, 1),
    dt.datetime(2024, 2, 29, 12, 0, 0, 999_999),
    dt.datetime(2024, 2, 29, 12, 0, 1),
]
#: Type -> values of a column of it.
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-128, -1, 0, 1, 127],
    "int": [-(2**31), -3, 0, 5, 2**31 - 1],
    "bigint": [-(2**63), -1, 0, 1, 2**63 - 1],
    "float": [0.0, -0.0, 1.5, 0.1, -3.0, float("nan"), float("inf"), 3e38],
    "double": [0.0, -0.0, 1.5, 0.1, 1e308, -1e308, float("nan"), float("-inf")],
    "string": TEXTS,
    "char(4)": [text for text in TEXTS if text == text.rstrip(" ")],
    "varchar(4)": TEXTS,
    "decimal(7,2)": [Decimal("-99999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("9.50"), Decimal("10.00")],
    "date": DAYS,
    "timestamp": TIMES,
    "binary": [b"", b"a"],
    "struct<n:int,s:string>": [{"n": 1, "s": "a"}, {"n": None, "s": "b"}, {"n": 7, "s": None}],
    "array<int>": [[], [1]],
}
TYPES = list(VALUES)
_QUOTED = ("string", "char(4)", "varchar(4)", "date", "timestamp", "binary")


class Run:
    """A table, its files and a filter, all by one seed (drawing each value by hypothesis takes minutes)."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = Random(seed)
        types = self.random.sample(TYPES, 3)
        self.columns = {f"c{i}": type_ for i, type_ in enumerate(types)}
        self.folder = Folder(folder, self.columns)
        folder.mkdir()

    def write(self) -> None:
        """Files of one or of several stripes, those of the first without the last column, and delete events."""
        for write_id in range(1, self.random.randint(2, 4)):
            names = list(self.columns)[: 2 if write_id == 1 and self.random.random() < 0.5 else 3]
            self._insert(write_id, names)
        if self.random.random() < 0.5:
            self.folder.delete(write_id + 1, [(1, encode_bucket(0), 0), (write_id, encode_bucket(0), 1)])

    def _insert(self, write_id: int, names: list[str]) -> None:
        self.folder.high_water_mark = write_id
        table = Folder(self.folder.path, {name: self.columns[name] for name in names}).table
        schema = arrow_schema(table.columns)
        path = self.folder.path / f"delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000"
        path.parent.mkdir()
        with AcidOrcWriter(
            STORE, str(path), schema=schema, write_id=WriteId(write_id), bucket_property=encode_bucket(0),
            sync=False, stripe_size_bytes=1,
        ) as writer:  # fmt: skip
            for _ in range(self.random.randint(1, 3)):
                writer.write(self._stripe(schema))
            writer.close()

    def _stripe(self, schema: pa.Schema) -> pa.RecordBatch:
        """Few values in each, so that many stripes can be left out."""
        rows = self.random.randint(1, 4)
        arrays = []
        for field in schema:
            values = self.random.sample(VALUES[self.columns[field.name]], self.random.randint(1, 2))
            nulls = self.random.choice([0.0, 0.0, 0.3, 1.0])
            found = [None if self.random.random() < nulls else self.random.choice(values) for _ in range(rows)]
            arrays.append(pa.array(found, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    # -- filters -----------------------------------------------------------------------------------

    def where(self, depth: int = 2) -> str:
        kind = self.random.choice(["and", "or", "not", "test", "test"]) if depth else "test"
        if kind == "not":
            return f"not ({self.where(depth - 1)})"
        if kind != "test":
            return f"({self.where(depth - 1)}) {kind} ({self.where(depth - 1)})"
        name = self.random.choice(list(self.columns))
        type_ = self.columns[name]
        if type_.startswith("struct") and self.random.random() < 0.7:
            field = self.random.choice([("n", "int"), ("s", "string")])
            name, type_ = f"{name}.{field[0]}", field[1]
        return self._test(name, type_)

    def _test(self, name: str, type_: str) -> str:
        choices = ["is null", "is not null"]
        if "<" not in type_:
            choices += ["between", "not between", "in", "not in", *["="] * 3, "!=", "<", "<=", ">", ">="]
        if type_ in ("string", "char(4)", "varchar(4)"):
            choices += ["like", "like", "not like"]
        match self.random.choice(choices):
            case "is null" | "is not null" as test:
                return f"{name} {test}"
            case "between" | "not between" as test:
                return f"{name} {test} {self._literal(type_)} and {self._literal(type_)}"
            case "in" | "not in" as test:
                return f"{name} {test} ({self._literal(type_)}, {self._literal(type_)})"
            case "like" | "not like" as test:
                return f"{name} {test} '{self.random.choice(TEXTS)}{self.random.choice(['%', '_', '%b', ''])}'"
            case sign:
                return f"{name} {sign} {self._literal(type_)}"

    def _literal(self, type_: str) -> str:
        value = self.random.choice(VALUES[type_])
        if isinstance(value, bytes):
            value = value.decode()
        return f"'{value}'" if type_ in _QUOTED or isinstance(value, float) else str(value).lower()

    def expression(self, depth: int = 2) -> pc.Expression:
        """As a program builds it."""
        kind = self.random.choice(["and", "or", "not", "and", "test", "test"]) if depth else "test"
        if kind == "not":
            return ~self.expression(depth - 1)
        if kind != "test":
            left, right = self.expression(depth - 1), self.expression(depth - 1)
            return left & right if kind == "and" else left | right
        name = self.random.choice(
            [name for name, type_ in self.columns.items() if not type_.startswith("array")] or [""]
        )
        type_ = self.columns.get(name, "")
        path: tuple[str, ...] = (name,)
        if type_.startswith("struct"):
            field = self.random.choice([("n", "int"), ("s", "string")])
            path, type_ = (name, field[0]), field[1]
        return self._call(pc.field(*path), type_) if name else pc.scalar(True)

    def _call(self, field: pc.Expression, type_: str) -> pc.Expression:
        arrow, value = arrow_type(type_), self.random.choice(VALUES[type_])
        signs = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
        match self.random.choice(["null", "valid", "in", "starts", *["compare"] * 6]):
            case "null":
                return field.is_null(nan_is_null=self.random.random() < 0.3)
            case "valid":
                return field.is_valid()
            case "in":
                values = [*self.random.sample(VALUES[type_], 2), *([None] if self.random.random() < 0.2 else [])]
                return field.isin(pa.array(values, arrow))
            case "starts" if type_ in ("string", "char(4)", "varchar(4)"):
                return pc.starts_with(field, value, ignore_case=self.random.random() < 0.2)
            case _:
                literal = pc.scalar(pa.scalar(value) if self.random.random() < 0.5 else pa.scalar(value, arrow))
                pair = (field, literal) if self.random.random() < 0.5 else (literal, field)
                compared: pc.Expression = self.random.choice(signs)(*pair)
                return compared

    # -- reading -----------------------------------------------------------------------------------

    def read(self, where: str | None = None, filter: pc.Expression | None = None) -> pa.Table:
        schema, columns = full_schema(self.folder.table), self.folder.table.columns
        predicate = None
        if where is not None:
            predicate = Predicate(schema, where=parse_where(where, columns))
        elif filter is not None:
            predicate = Predicate(schema, filter=filter, filter_stripes=stripes_of(filter, columns))
        projection = Projection(self.folder.table, tuple(schema.names), predicate)
        snapshot = Snapshot(self.folder.valid_write_ids, ValidTxnList(TxnId(10**6)))
        batches = read_partition(PartitionToRead("", str(self.folder.path), {}), projection, snapshot)
        return pa.Table.from_batches(batches, schema=schema)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
@example(0)
def test_a_filter_gives_the_rows_that_it_gives_after_reading(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(seed, Path(folder) / "t")
        run.write()
        everything = run.read(None)
        for _ in range(10):
            where = run.where()
            expected = everything.filter(parse_where(where, run.folder.table.columns).expression)
            assert str(run.read(where).to_pylist()) == str(expected.to_pylist()), (where, run.columns)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
@example(0)
def test_an_arrow_expression_gives_the_rows_that_it_gives_after_reading(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(seed, Path(folder) / "t")
        run.write()
        everything = run.read()
        for _ in range(10):
            expression = run.expression()
            expected = everything.filter(expression)
            found = run.read(filter=expression)
            assert str(found.to_pylist()) == str(expected.to_pylist()), (expression, run.columns)
