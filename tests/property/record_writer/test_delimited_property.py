"""One delimited line in is one row out: fast and slow path against the oracle."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hive_ingest.record_writer import StrictDelimitedInputWriter
from hive_ingest.record_writer.delimited import blocks as delimited_blocks
from tests.property.record_writer import oracle
from tests.property.record_writer.parsing_support import check, each_way, expected, run, schema_of

SCHEMAS = [
    schema_of(id="int", user="string", value="double"),
    schema_of(user="string"),
    schema_of(id="bigint"),
    schema_of(a="string", b="varchar(3)", c="char(3)"),
    schema_of(tiny="tinyint", small="smallint", big="bigint", flag="boolean", f="float", d="decimal(5,2)"),
    schema_of(b="binary", day="date", at="timestamp", user="string"),
]

#: Values that the fast path reads; then such as are right but unusual; then such as Arrow's reader takes too
#: kindly, or in another way than the rule.
text = st.text(st.characters(codec="utf-8", exclude_characters="\n\r,;\\\t "), max_size=6)
plain = {
    "int": st.integers(-(2**31), 2**31 - 1).map(str),
    "bigint": st.integers(-(2**63), 2**63 - 1).map(str),
    "tinyint": st.integers(-128, 127).map(str),
    "smallint": st.integers(-32768, 32767).map(str),
    "boolean": st.sampled_from(["true", "false", "TRUE", "False"]),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.sampled_from([".5", "5.", "+1e5"]),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    "decimal(5,2)": st.decimals(-999, 999, places=2).map(str) | st.sampled_from(["1.500", "+.5", "5.", "12e1"]),
    "string": text,
    "char(3)": st.text("aé😀", max_size=3),
    "varchar(3)": st.text("aé😀", max_size=3),
    "binary": st.sampled_from(["", "YWI=", "////", "YQ=="]),
    "date": st.dates().map(lambda d: d.isoformat()),
    "timestamp": st.sampled_from(["2020-02-29 23:59:59", "2020-02-29T23:59:59.1", "1969-12-31 00:00:00.000001"]),
}
_integers = [
    "",
    " 1",
    "1 ",
    "\t1",
    "0x1F",
    "0X1",
    "-0x1",
    "1.0",
    "1e2",
    "300",
    "3000000000",
    "9" * 40,
    "1_0",
    "١",
    "+1",
    "007",
]
special = {
    **{
        name: [*_integers, "0" * 30 + "9", "-0", "+", "1\x00", "+-1"]
        for name in ("int", "bigint", "tinyint", "smallint")
    },
    **{
        name: ["", " 1.5", "1 ", "inf", "nan", "NaN", "-Infinity", "nan(1)", "1e400", "1e39", "1E-400", "1d", "0x1p3"]
        for name in ("double", "float")
    },
    "decimal(5,2)": ["1000", "1.234", "99999", " 1", "1 ", "", "100000e-5", "NaN", "0x1", "-", "1e"],
    "boolean": ["tRue", "1", "0", " true", "", "yes", "t"],
    "string": [
        "",
        " a ",
        '"',
        '"a"',
        "\x00",
        "0x1",
        "\ufeffa",
        "\u2028",
        "a\rb",
        "\\",
        "a\\nb",
        "\\\\N",
        "a\\",
        "\udcff",
    ],
    "char(3)": ["ab      ", "    ", "abcd", "ab c", "a\\rb", "😀😀😀😀"],
    "varchar(3)": ["abcd", "ab  ", "   ", "😀😀😀😀", "a\\nb"],
    "binary": ["YQ", "Y Q=", "é", "=", "YQ==\x00"],
    "date": ["0000-01-01", "2020-1-1", "2020-02-30", "", " 2020-01-01", "2020-01-01 00:00:00"],
    "timestamp": [
        *(
            "1969-12-31 23:59:59.5",
            "2020-01-01",
            "2020-01-01 00:00:00Z",
            "2263-01-01 00:00:00",
            "2020-01-01 00:00",
            "",
            "NULL",
        ),
        *("2262-04-11 23:47:16.854775807", "2020-01-01 24:00:00", "2020-01-01 00:00:00.0000000001"),
    ],
}
odd = st.sampled_from(
    [
        *("", " 1", "1 ", "\t1", "0x1F", "0X1", "-0x1", "1.0", "1e2", "300", "3000000000", "9" * 40, "1e400", "nan"),
        *("inf", "INFINITY", "nan(1)", "1_0", "1d", "١", "yes", "1", "0", "t", "1000", "1.234", "abcd", "YQ", "Y Q="),
        *("2020-02-30", "0000-01-01", "2020-01-01 00:00:00Z", "2020-01-01", "2263-01-01 00:00:00", "NULL", "\\n"),
        *(
            "\\",
            "\\\\",
            "a\\,b",
            "\\N",
            "\\r\\n",
            "a\\",
            "\\\\N",
            "\x00",
            "-",
            "+",
            "a\rb",
            '"a,b"',
            "1e",
            "0x",
            " \\N",
        ),
    ]
)
JUNK = [
    b"",
    b",",
    b",,,,,,,",
    b"\xff",
    b"\xef\xbb\xbf1,a,1",
    b"\r",
    b"1,a\r",
    b"1,\xff,2",
    b"\\N,\\N,\\N",
    b" ",
    b"\x00",
]


@st.composite
def inputs(draw):
    schema = draw(st.sampled_from(SCHEMAS))
    names = [column.name for column in schema.columns]
    order = draw(st.sampled_from([None, None, list(reversed(names))]))
    types = {column.name: column.type for column in schema.columns}
    delimiter = draw(st.sampled_from([",", ",", ";", "\t"]))
    null = draw(st.sampled_from(["\\N", "\\N", "", "null"]))
    fields = [plain[types[name]] | plain[types[name]] | st.just(null) for name in order or names]
    line = st.tuples(*fields).map(lambda values: delimiter.join(values).encode())
    records = draw(st.lists(line, min_size=2, max_size=10))
    mood = draw(
        st.sampled_from(["clean", "one value", "one value", "one value", "narrow", "junk", "one dirty", "dirty"])
    )
    dirty = st.lists(st.one_of(*fields, odd), max_size=len(names) + 1).map(lambda v: delimiter.join(v).encode())
    dirt = st.one_of(dirty, st.tuples(*[field | odd for field in fields]).map(lambda v: delimiter.join(v).encode()))
    dirt = st.one_of(dirt, st.sampled_from(JUNK))
    if mood == "narrow":  # every line lacks its last field, or has one too many
        wide = draw(st.booleans())
        records = [r + delimiter.encode() + b"\xff" if wide else r.rpartition(delimiter.encode())[0] for r in records]
    elif mood == "one value":
        place = draw(st.integers(0, len(records) - 1))
        values = [draw(field) for field in fields]
        odd_one = draw(st.integers(0, len(values) - 1))
        values[odd_one] = draw(st.sampled_from(special[types[(order or names)[odd_one]]]))
        records[place] = delimiter.join(values).encode("utf-8", "surrogateescape")
    elif mood == "junk":
        records.insert(draw(st.integers(0, len(records))), draw(st.sampled_from(JUNK)))
    elif mood == "one dirty":
        records.insert(draw(st.integers(0, len(records))), draw(dirt))
    elif mood == "dirty":
        records = [draw(dirt) if draw(st.booleans()) else record for record in records]
    kinds = ["text", "items", "odd items", "empty"] if mood in ("dirty", "one dirty") else ["text"]
    return schema, order, delimiter, null, draw(arguments(records, kinds))


@st.composite
def arguments(draw, records, kinds):
    """The records cut into arguments: text, or items that may have newlines inside."""
    found, at = [], 0
    while at < len(records):
        some = records[at : at + draw(st.integers(3, 12))]
        at += len(some)
        kind = draw(st.sampled_from(kinds))
        if kind == "empty":
            found.extend([draw(st.sampled_from([b"", "", bytearray(), memoryview(b"")])), b"\n".join(some) + b"\n"])
        elif kind == "odd items":
            found.append([record + draw(st.sampled_from([b"", b"\n", b"\r", b"\nx"])) for record in some])
        elif kind == "items":
            found.append(some)
        else:
            end = draw(st.sampled_from([b"", b"\n", b"\n", b"\r"] if len(kinds) > 1 else [b"", b"\n"]))
            found.append(draw(st.sampled_from([b"\n", b"\n", b"\r\n"])).join(some) + end)
    return found


#: A value that the fast path reads, for each type.
SIMPLE = {"string": "a", "char(3)": "a", "varchar(3)": "a", "boolean": "true", "binary": "YQ==", "date": "2020-01-01"}
SIMPLE |= {"timestamp": "2020-01-01 00:00:00"}


@pytest.mark.parametrize("escape", [None, "\\"])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_special_value_is_read_as_the_oracle_reads_it(schema, escape):
    """In a block that is clean otherwise, so that the fast path alone must see it."""
    line = [SIMPLE.get(c.type, "1") for c in schema.columns]
    for place, column in enumerate(schema.columns):
        for value in special[column.type]:
            odd_line = [*line[:place], value, *line[place + 1 :]]
            records = [",".join(x).encode("utf-8", "surrogateescape") for x in (line, line, odd_line, line)]
            _compare(schema, b"\n".join(records) + b"\n", escape, "fail")


@pytest.mark.parametrize("junk", sorted(set(JUNK)), ids=repr)
@pytest.mark.parametrize("missing", ["fail", "null"])
def test_no_odd_line_makes_two_rows_or_none(junk, missing):
    for schema in SCHEMAS:
        line = ",".join(SIMPLE.get(c.type, "1") for c in schema.columns).encode()
        for records in ([junk, line, line], [line, junk, line], [line, line, junk]):
            _compare(schema, b"\n".join(records) + b"\n", None, missing)


def _compare(schema, text, escape, missing):
    wanted = expected(
        oracle.records_of(text, is_json=False),
        lambda r: oracle.delimited_row(r, schema.columns, escape=(escape or "").encode(), missing=missing),
    )
    for _ in each_way(delimited_blocks):
        writer = StrictDelimitedInputWriter(escape=escape, missing_fields=missing, on_error="skip")
        check(run(writer, schema, [text]), wanted, skips=True)


@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    case=inputs(),
    block_bytes=st.sampled_from([100, 1 << 20, 1 << 20, 1 << 20]),
    skips=st.booleans(),
    escape=st.sampled_from([None, "\\"]),
    missing=st.sampled_from(["fail", "fail", "null"]),
)
def test_one_line_is_one_row_with_the_oracles_values(case, block_bytes, skips, escape, missing):
    schema, order, delimiter, null, given_arguments = case
    writer = StrictDelimitedInputWriter(
        field_delimiter=delimiter,
        null_format=null,
        escape=escape,
        columns=order,
        missing_fields=missing,
        on_error="skip" if skips else "fail",
        block_bytes=block_bytes,
    )
    records = [r for argument in given_arguments for r in oracle.records_of(argument, is_json=False)]
    wanted = expected(
        records,
        lambda r: oracle.delimited_row(
            r,
            schema.columns,
            delimiter=delimiter.encode(),
            null=null.encode(),
            escape=(escape or "").encode(),
            missing=missing,
            order=order,
        ),
    )
    for _ in each_way(delimited_blocks):
        check(run(writer, schema, given_arguments), wanted, skips=skips)
