"""Spark types and Hive types, and the one `select` that brings a DataFrame into the shape of a table.

The table of types is in docs/spark.md. A DataFrame is checked against its table before the first batch
(`plan_columns`); the casts then run in Spark (`ColumnPlan.select`), so that Spark's own session time zone decides
what instants are. Only casts that keep every value are made: no row can fail in one, whether ANSI mode is on or off.
What depends on the row (the length of a varchar, the range of a timestamp) is left to `ArrowWriter`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hive_ingest.errors import ConfigurationError, StreamingConnectionError, UnsupportedFeature
from hive_ingest.model import Table
from hive_ingest.record_writer import typed_columns
from hive_ingest.schema import MAX_LENGTH, HiveType, parse_type

MissingColumns = Literal["fail", "null"]

_SIMPLE: Final[dict[type[T.DataType], str]] = {
    T.BooleanType: "boolean",
    T.ByteType: "tinyint",
    T.ShortType: "smallint",
    T.IntegerType: "int",
    T.LongType: "bigint",
    T.FloatType: "float",
    T.DoubleType: "double",
    T.StringType: "string",
    T.BinaryType: "binary",
    T.DateType: "date",
    T.TimestampType: "timestamp",
    T.TimestampNTZType: "timestamp",
}
_READ_AS: Final[dict[str, T.DataType]] = {
    **{hive: spark() for spark, hive in _SIMPLE.items()},  # the last one counts: timestamp is TimestampNTZType
    "char": T.StringType(),
    "varchar": T.StringType(),
}
#: What to do about types that Hive lacks, by class name, because pyspark 4.0 lacks some of the classes.
_REMEDIES: Final = {
    "NullType": "cast it to the type of the column",
    "CalendarIntervalType": "cast it to string",
    "DayTimeIntervalType": "cast it to string, or to a number by extract()",
    "YearMonthIntervalType": "cast it to string, or to a number by extract()",
    "VariantType": "make a string of it by to_json(), or take out fields by variant_get()",
    "TimeType": "cast it to string",
    "GeometryType": "make a binary of it by st_asbinary()",
    "GeographyType": "make a binary of it by st_asbinary()",
}
#: Digits before the point that hold every value.
_INTEGER_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_WIDER: Final = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
}
_TEXT: Final = ("string", "char", "varchar")


# -- types -----------------------------------------------------------------------------------------


def hive_type(spark_type: T.DataType) -> str:
    """The Hive type string that holds every value of a Spark type; of TimestampType, its wall clock.

    Raises UnsupportedFeature for a type that Hive tables here cannot have.
    """
    kind = _SIMPLE.get(type(spark_type))
    if kind is not None:
        return kind
    match spark_type:
        case T.DecimalType() if spark_type.scale >= 0:
            return f"decimal({spark_type.precision},{spark_type.scale})"
        case T.CharType():
            return _characters("char", spark_type.length)
        case T.VarcharType():
            return _characters("varchar", spark_type.length)
        case T.ArrayType():
            return f"array<{hive_type(spark_type.elementType)}>"
        case T.MapType():
            return f"map<{hive_type(spark_type.keyType)},{hive_type(spark_type.valueType)}>"
        case T.StructType():
            return _struct(spark_type)
    raise UnsupportedFeature(_no_hive_type(spark_type))


def _characters(kind: str, length: int) -> str:
    return f"{kind}({length})" if length <= MAX_LENGTH[kind] else "string"


def _struct(struct: T.StructType) -> str:
    text = f"struct<{','.join(f'{field.name.lower()}:{hive_type(field.dataType)}' for field in struct)}>"
    try:
        if str(parse_type(text)) == text:
            return text
    except ConfigurationError as error:
        raise UnsupportedFeature(f"{text} is not a Hive type: {error}. Rename its fields") from error
    raise UnsupportedFeature(f"{text} is read otherwise by Hive: rename its fields")


def _no_hive_type(spark_type: T.DataType) -> str:
    name = type(spark_type).__name__
    if isinstance(spark_type, T.UserDefinedType):
        return f"the user-defined type {name} has no Hive type: select what it is made of"
    return f"Spark's {name} ({spark_type.simpleString()}) has no Hive type: {_REMEDIES.get(name, 'cast it first')}"


def columns_of(schema: T.StructType) -> dict[str, str]:
    """Column names in lower case, and Hive types, of a table that holds the rows of a DataFrame.

    Raises UnsupportedFeature, which names every column that no table can have.
    """
    columns: dict[str, str] = {}
    problems = [f"{name!r} is there twice, case aside" for name in _twice(schema)]
    for field in schema:
        try:
            columns[field.name.lower()] = hive_type(field.dataType)
        except UnsupportedFeature as error:
            problems.append(f"{field.name!r}: {error}")
    if problems:
        raise UnsupportedFeature(f"no Hive table has these columns: {'; '.join(problems)}")
    return columns


def spark_type(hive_type: str) -> T.DataType:
    """The Spark type that the values of a Hive type are read as; `timestamp` is TimestampNTZType.

    Raises ConfigurationError (no such type) or UnsupportedFeature (a type of Hive that is not supported here).
    """
    return _spark_type(parse_type(hive_type))


def _spark_type(type_: HiveType) -> T.DataType:
    if type_.kind in _READ_AS:
        return _READ_AS[type_.kind]
    if type_.kind == "decimal":
        return T.DecimalType(*type_.parameters)
    children = [(name, _spark_type(child)) for name, child in type_.children]
    if type_.kind == "array":
        return T.ArrayType(children[0][1])
    if type_.kind == "map":
        return T.MapType(children[0][1], children[1][1])
    return T.StructType([T.StructField(name, child) for name, child in children])


# -- a DataFrame and its table ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """A column of the table, and the field of the DataFrame that it is made of (None: it is null)."""

    name: str
    type: HiveType
    source: T.StructField | None

    def expression(self) -> SparkColumn:
        """The column in the table's type and under the table's name."""
        if self.source is None:
            return F.lit(None).cast(_spark_type(self.type)).alias(self.name)
        return _shaped(F.col(self.source.name), self.source.dataType, self.type).alias(self.name)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """How a DataFrame of one schema becomes rows of a table: the data columns, then the dynamic partition columns."""

    columns: tuple[PlannedColumn, ...]

    @property
    def schema(self) -> T.StructType:
        """Of the DataFrame that `select` makes, nullable everywhere."""
        return T.StructType([T.StructField(column.name, _spark_type(column.type)) for column in self.columns])

    def select(self, df: DataFrame) -> DataFrame:
        """`df` in exactly the table's columns, their order and their types; classic or Spark Connect.

        `df` has the schema that the plan was made for. Instants become the wall clock of its session's time zone.
        """
        return df.select(*(column.expression() for column in self.columns))


def plan_columns(
    schema: T.StructType,
    table: Table,
    *,
    static_partition_values: Sequence[str] = (),
    missing_columns: MissingColumns = "fail",
) -> ColumnPlan:
    """Check a DataFrame's schema against a table, before its first row.

    Columns, and fields of structs, are matched by name without regard to case, in any order; nullability is ignored.
    `static_partition_values` are those of the leading partition keys, which the DataFrame must not have.
    With `missing_columns="null"` columns and fields that the DataFrame lacks are null.

    Raises StreamingConnectionError, which names every column that is missing, extra, there twice or of a type that
    would not keep every value; UnsupportedFeature for types of the table, and names, that Spark cannot carry.
    """
    if missing_columns not in ("fail", "null"):
        raise ConfigurationError(f"missing_columns={missing_columns!r} is unknown: use 'fail' or 'null'")
    dynamic = table.partition_keys[len(static_partition_values) :]
    static = [key.name.lower() for key in table.partition_keys[: len(static_partition_values)]]
    targets = typed_columns((*table.columns, *dynamic))
    _check_names(table, [name for name, _ in targets])
    problems = list(_Misfits(static, missing_columns).of_fields(schema, targets))
    if problems:
        raise StreamingConnectionError(f"the DataFrame does not fit {table.name}: {'; '.join(problems)}")
    sources = _by_name(schema)
    return ColumnPlan(tuple(PlannedColumn(name, type_, sources.get(name)) for name, type_ in targets))


def _check_names(table: Table, names: Iterable[str]) -> None:
    """mapInArrow looks columns up as `df[name]`, which is a path and not a name. Hive's own DDL has no such names."""
    paths = [name for name in names if "." in name or "`" in name or name == "*"]
    if paths:
        raise UnsupportedFeature(
            f"{table.name} has columns that Spark cannot pass on under their names: {', '.join(map(repr, paths))}. "
            "Rename them to names without . and `"
        )


class _Misfits:
    """What is wrong with a schema: one text for each column or field, none if it fits."""

    def __init__(self, static_keys: Sequence[str], missing_columns: MissingColumns) -> None:
        self._static_keys = static_keys
        self._missing_columns = missing_columns

    def of_fields(self, fields: T.StructType, targets: Iterable[tuple[str, HiveType]], path: str = "") -> Iterator[str]:
        """`path` ends in a dot inside a struct."""
        sources = _by_name(fields)
        for name in _twice(fields):
            yield f"{path + name!r} is there twice, case aside: drop or rename one"
        for name, type_ in targets:
            field = sources.pop(name, None)
            if field is not None:
                yield from self.of_type(field.dataType, type_, path + field.name)
            elif self._missing_columns == "fail":
                yield f"{path + name!r} ({type_}) is missing: add it, or let it be null by missing_columns='null'"
        for name, field in sources.items():
            yield self._extra(path, name, field.name)

    def _extra(self, path: str, name: str, spelling: str) -> str:
        if not path and name in self._static_keys:
            return f"{spelling!r} is a static partition key, its value is given already: drop it"
        return f"{path + spelling!r} is not in the table: drop it, or add it to the table"

    def of_type(self, source: T.DataType, target: HiveType, path: str) -> Iterator[str]:
        match source:
            case T.NullType():
                return
            case T.ArrayType() if target.kind == "array":
                yield from self.of_type(source.elementType, target.children[0][1], f"{path}.element")
            case T.MapType() if target.kind == "map":
                yield from self.of_type(source.keyType, target.children[0][1], f"{path}.key")
                yield from self.of_type(source.valueType, target.children[1][1], f"{path}.value")
            case T.StructType() if target.kind == "struct":
                yield from self.of_fields(source, target.children, f"{path}.")
            case _:
                yield from _retyped(source, target, path)


def _retyped(source: T.DataType, target: HiveType, path: str) -> Iterator[str]:
    try:
        found = parse_type(hive_type(source))
    except UnsupportedFeature as error:
        yield f"{path!r}: {error}"
        return
    if not _keeps_every_value(found, target):
        yield f"{path!r} is {source.simpleString()}, which {target} does not hold: cast it"


def _keeps_every_value(source: HiveType, target: HiveType) -> bool:
    """The cast from one simple type to another is exact for every value (a text's length is looked at row by row)."""
    if source == target or target.kind in _WIDER.get(source.kind, ()):
        return True
    if target.kind != "decimal":
        return source.kind in _TEXT and target.kind in _TEXT
    precision, scale = target.parameters
    if source.kind == "decimal":
        return source.parameters[1] <= scale and source.parameters[0] - source.parameters[1] <= precision - scale
    return source.kind in _INTEGER_DIGITS and _INTEGER_DIGITS[source.kind] <= precision - scale


# -- expressions -----------------------------------------------------------------------------------


def _shaped(column: SparkColumn, source: T.DataType, target: HiveType) -> SparkColumn:
    """`column` as the Spark type that `target` is written from; untouched where it is that already."""
    if _is_shaped(source, target):
        return column
    match source:
        case T.ArrayType():
            return F.transform(column, _shaper(source.elementType, target.children[0][1]))
        case T.MapType():
            return _shaped_map(column, source, target)
        case T.StructType():
            fields = _by_name(source)
            struct = F.struct(*(_field(column, fields.get(name), name, type_) for name, type_ in target.children))
            return F.when(column.isNotNull(), struct)  # otherwise null, as it was
    return column.cast(_spark_type(target))


def _is_shaped(source: T.DataType, target: HiveType) -> bool:
    match source:
        case T.ArrayType():
            return _is_shaped(source.elementType, target.children[0][1])
        case T.MapType():
            key, value = (child for _, child in target.children)
            return _is_shaped(source.keyType, key) and _is_shaped(source.valueType, value)
        case T.StructType():
            same_names = source.names == [name for name, _ in target.children]
            pairs = zip(source, target.children, strict=False)
            return same_names and all(_is_shaped(field.dataType, type_) for field, (_, type_) in pairs)
    return source == _spark_type(target)


def _shaper(source: T.DataType, target: HiveType) -> Callable[[SparkColumn], SparkColumn]:
    return lambda column: _shaped(column, source, target)


def _shaped_map(column: SparkColumn, source: T.MapType, target: HiveType) -> SparkColumn:
    (_, key_type), (_, value_type) = target.children
    if not _is_shaped(source.valueType, value_type):
        value_of = _shaper(source.valueType, value_type)
        column = F.transform_values(column, lambda _, value: value_of(value))
    if not _is_shaped(source.keyType, key_type):
        # Not by a cast of the map: two instants that are one wall clock would leave a key twice in it, unseen.
        key_of = _shaper(source.keyType, key_type)
        column = F.transform_keys(column, lambda key, _: key_of(key))
    return column


def _field(struct: SparkColumn, field: T.StructField | None, name: str, type_: HiveType) -> SparkColumn:
    if field is None:
        return F.lit(None).cast(_spark_type(type_)).alias(name)
    return _shaped(struct.getField(field.name), field.dataType, type_).alias(name)


# -- names -----------------------------------------------------------------------------------------


def _by_name(fields: T.StructType) -> dict[str, T.StructField]:
    return {field.name.lower(): field for field in fields}


def _twice(fields: T.StructType) -> list[str]:
    """Names, in lower case, that several fields have."""
    return [name for name, count in Counter(field.name.lower() for field in fields).items() if count > 1]
