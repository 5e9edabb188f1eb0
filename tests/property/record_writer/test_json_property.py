"""One JSON record in is one row out: fast and slow path against the oracle."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hive_ingest.record_writer import StrictJsonWriter
from hive_ingest.record_writer.json import blocks as json_blocks
from tests.property.record_writer import oracle
from tests.property.record_writer.parsing_support import check, each_way, expected, run, schema_of

SCHEMAS = [
    schema_of(id="int", user="string", value="double"),
    schema_of(id="bigint", tiny="tinyint", small="smallint", flag="boolean", f="float", d="decimal(5,2)"),
    schema_of(c="char(3)", v="varchar(3)", b="binary", day="date", at="timestamp"),
    schema_of(s="struct<a:int,b:struct<c:string,a:date>>", l="array<struct<a:float,n:array<timestamp>>>", id="int"),
    schema_of(id="int", m="map<int,array<string>>"),
]

#: Values that the fast path reads; then such as are right but unusual; then such as Arrow's reader takes too
#: kindly, or in another way than the rule.
texts = st.text(max_size=6).map(json.dumps) | st.text(max_size=4).map(lambda t: json.dumps(t, ensure_ascii=False))
plain = {
    "int": st.integers(-(2**31), 2**31 - 1).map(str),
    "bigint": st.integers(-(2**63), 2**63 - 1).map(str),
    "tinyint": st.integers(-128, 127).map(str),
    "smallint": st.integers(-32768, 32767).map(str),
    "boolean": st.sampled_from(["true", "false"]),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.sampled_from(["1", "-0", "12E-3"]),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr) | st.just("3.4e38"),
    "decimal(5,2)": st.decimals(-999, 999, places=2).map(str) | st.sampled_from(['"1.5"', "1.500", '"+.5"', "12e1"]),
    "string": texts,
    "char(3)": st.text("aé😀 ", max_size=3).map(json.dumps) | st.just('"ab      "'),
    "varchar(3)": st.text("aé😀 ", max_size=3).map(json.dumps),
    "binary": st.sampled_from(['""', '"YWI="', '"////"', '"YQ=="']),
    "date": st.dates().map(lambda d: f'"{d.isoformat()}"'),
    "timestamp": st.sampled_from(
        [
            '"2020-02-29 23:59:59"',
            '"2020-02-29T23:59:59.1"',
            '"1969-12-31 00:00:00.000001"',
            '"1999-01-01 00:00:00.000000001"',
        ]
    ),
}
unusual = {
    "double": ["1e-400", "1" * 400],
    "decimal(5,2)": ['"1E-2"', "100000e-5", "-0", '"000001.10"', "1e-0"],
    "timestamp": ['"2262-04-11 23:47:16.854775807"', '"1677-09-21 00:12:44"'],
    "string": ['"\\u0000"', '"\\ud83d\\ude00"'],
}
_numbers = ["1.0", "1e2", "300", "99999", "3000000000", "9223372036854775808", "NaN", "-Infinity", "Inf", '"1"', "true"]
_too_long = ['"abcd"', '"😀😀😀😀"', '"ab d"', '"    "', "1"]
doubtful = {
    **dict.fromkeys(("int", "bigint", "tinyint", "smallint"), _numbers),
    **{name: ["NaN", "Infinity", "-Inf", "1e39", "1e400", '"1"', "01", ".5", "+1"] for name in ("double", "float")},
    "decimal(5,2)": ["1000", "1.234", '"1e5"', '" 1"', "99999", "NaN", '""', '"1e"', '"Infinity"', '"１"'],
    **dict.fromkeys(("char(3)", "varchar(3)"), _too_long),
    "binary": ['"Y"', '"YQ"', '"YW I="', '"é"', '"=YQ="', "[]"],
    "date": ['"0000-01-01"', '"2020-1-1"', '"2020-02-30"', "1", '"2020-01-01 00:00:00"', '" 2020-01-01"', '""'],
    "timestamp": [
        *(
            '"1969-12-31 23:59:59.999999999"',
            '"2020-01-01"',
            '"2020-01-01 00:00:00Z"',
            '"2263-01-01 00:00:00"',
            '"2020-01-01 00:00"',
            "0",
            '"NULL"',
        ),
        *(
            '"2020-01-01 00:00:00+01:00"',
            '"2020-01-01 24:00:00"',
            '"2020-01-01 00:00:00.0000000001"',
            '"2020-01-01t00:00:00"',
        ),
    ],
    "string": ['"\\ud800"', '"\udcff"', "1", "true", "{}", '"a\tb"', '"\\x"'],
    "boolean": ["1", '"true"', "True", "NaN"],
}
#: Runs of records that together give Arrow's reader as many rows as there are records, or hide a key from it.
DECOYS = [
    [b"{}{}", b""],
    [b'{"zz":', b"{}}", b"{}{}"],
    [b'{"zz":[{}', b",{}]}", b"{}{}"],
    [b"{}{}\x00{}", b"{}"],
    [b"null"],
    [b"\xef\xbb\xbf{}"],
    [b'{"zz":1}', b'{"\\u0049D":7}'],
    [b'{"zz":1}', b'{"\xe2\x84\xaad":7,"zz":2}', b'{"Id":7}'],
    [b'{"zz":1}', b'{"ID":7,"id":7}'],
    [b'{"zz":1}', b'{"zz": NaN}'],
    [b'{"zz":1}', b'{"zz":[-Inf]}'],
    [b'{"zz":1}', b'{"zz":"\xff"}'],
    [b'{"zz":1}', b'{"ID" :7}', b'{"uSER"\t: "x"}'],
    [b'{"zz":1}', b'{"S":{"A":1}}', b'{"s":{"A":1,"zz":2}}', b'{"d":1.5,"D":1.5}'],
]


odd = st.sampled_from(
    [
        *(
            "1.0",
            "1e2",
            "300",
            "99999",
            "3000000000",
            "9223372036854775808",
            "1e400",
            "1e39",
            "NaN",
            "Infinity",
            "-Inf",
        ),
        *("true", '"1"', '"true"', "{}", "[]", "[null]", '"a\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', '"abcd"', "01"),
        *("1000", "1.234", '" 1"', '"1e"', '"YW I="', '"YQ"', '"2020-02-30"', '"2020-1-1"', '"0000-01-01"', "+1", ".5"),
        *('"2020-01-01 00:00:00Z"', '"2020-01-01"', '"2263-01-01 00:00:00"', '"2020-01-01 24:00:00"', "1" * 30, "\x00"),
        *('"2020-01-01 00:00:00.0000000001"', '"2020-01-01  00:00:00"', '"１２"', '"\xe9\t"', "[[1]]", '{"a":"x"}', ""),
        *('{"a":1,"A":2}', '{"zz":{"a":1}}', '{"1":null}', '{"1":["x"],"01":[]}', '{"x":[]}', '"a\nb"', "1 2", '"\\x"'),
        *("1" * 5000, '"' + "x" * 300 + '"', "1.7976931348623159e308", "null"),
    ]
)


def value_of(type_: str):
    if type_.startswith("struct<a:int"):
        inner = fields({"c": plain["string"], "a": plain["date"]})
        return fields({"a": plain["int"], "b": inner})
    if type_.startswith("array<struct"):
        stamps = st.lists(maybe_null(plain["timestamp"]), max_size=2).map(lambda v: f"[{','.join(v)}]")
        return st.lists(maybe_null(fields({"a": plain["float"], "n": stamps})), max_size=3).map(
            lambda v: f"[{','.join(v)}]"
        )
    if type_.startswith("map"):
        strings = st.lists(plain["string"], max_size=2).map(lambda v: f"[{','.join(v)}]")
        return st.dictionaries(plain["int"], strings, max_size=3).map(
            lambda pairs: "{" + ",".join(f'"{key}":{value}' for key, value in pairs.items()) + "}"
        )
    return plain[type_]


def maybe_null(values):
    return st.one_of(values, values, values, st.just("null"))


@st.composite
def fields(draw, values, extra=False):
    """An object with most of the fields, in any order."""
    names = draw(st.permutations(list(values)))
    pairs = [f'"{name}":{draw(maybe_null(values[name]))}' for name in names if draw(st.integers(0, 9))]
    if extra and draw(st.booleans()):
        pairs.append(
            f'"{draw(st.sampled_from(["zz", "yy", "Zz"]))}":{draw(st.one_of(odd, plain["string"], plain["int"]))}'
        )
    return "{" + ",".join(pairs) + "}"


@st.composite
def dirty_record(draw, schema):
    """A record in which anything may be wrong, or only unusual."""
    pairs = []
    for column in schema.columns:
        name = draw(st.sampled_from([column.name, column.name, column.name.upper(), column.name.title(), "zz"]))
        key = draw(st.sampled_from([name, name, name, f"\\u{ord(name[0]):04x}{name[1:]}"]))
        value = draw(st.one_of(maybe_null(value_of(column.type)), maybe_null(value_of(column.type)), odd))
        pairs.append(f'"{key}"{draw(st.sampled_from(["", "", " "]))}:{draw(st.sampled_from(["", " "]))}{value}')
    return "{" + draw(st.sampled_from([",", ", ", ",\t"])).join(pairs) + "}"


JUNK = [
    *(b"", b" ", b"{}", b"{}{}", b"{} {}", b"null", b"[]", b"[{}]", b"1", b'"x"', b"{", b"}", b'{"id":', b'{"id":1}}'),
    *(
        b'{"user":"\xff"}',
        b"\xef\xbb\xbf{}",
        b'{"id":1,"id":1}',
        b'{"id":1,"ID":null}',
        b'{"id":1,}',
        b"{}\x00{}",
        b"\x00",
    ),
    *(
        b' {"id":1} ',
        b'{"id":1}\r',
        b"{} //x",
        b'{"zz":1e999}',
        b'{"zz":"\\udc00"}',
        b'{"user":"a}\\n{"}',
        b'{"zz":tru}',
    ),
    *(
        b'{"zz":[' * 3 + b"]}" * 3,
        b'{"zz":{"id":1,"ID":2}}',
        b'{"\\u0049D":7}',
        b'{"\\u212ad":7}',
        b'{"zz":NaN}',
        b'{"s":{"zz":1}}',
    ),
]


@st.composite
def inputs(draw):
    """A schema, and the arguments of some calls of `write()`, mostly clean but for one thing."""
    schema = draw(st.sampled_from(SCHEMAS))
    spelling = draw(st.sampled_from([str.lower, str.lower, str.upper, str.title]))
    clean = fields({spelling(c.name): value_of(c.type) for c in schema.columns}, extra=not draw(st.integers(0, 3)))
    records = [record.encode() for record in draw(st.lists(clean, min_size=2, max_size=8))]
    variant = draw(st.sampled_from(["clean", "one value", "one value", "decoy", "respelled", "one dirty", "dirty"]))
    place = draw(st.integers(0, len(records)))
    bad_records = st.one_of(
        dirty_record(schema).map(lambda text: text.encode("utf-8", "surrogatepass")), st.sampled_from(JUNK)
    )
    if variant == "one value":
        records.insert(place, draw(one_value(schema, spelling)))
    elif variant == "decoy":
        records[place:place] = draw(st.sampled_from(DECOYS))
    elif variant == "respelled":
        records = [with_other_spelling(record, draw) for record in records]
    elif variant == "one dirty":
        records.insert(place, draw(bad_records))
    elif variant == "dirty":
        records = [draw(bad_records) if draw(st.booleans()) else record for record in records]
    return schema, draw(arguments(records))


@st.composite
def one_value(draw, schema, spelling):
    """A record of one key, whose value is right but unusual, or wrong in a way that is easy to miss."""
    column = draw(st.sampled_from(schema.columns))
    name, type_ = draw(st.sampled_from(sorted(_leaves(column.name, column.type))))
    value = draw(st.sampled_from([*unusual.get(type_, []), *doubtful[type_]]))
    before, after = name.split("%")
    key = before.replace(f'"{column.name}"', f'"{spelling(column.name)}"', 1)
    return f"{{{key}{value}{after}}}".encode("utf-8", "surrogateescape")


def _leaves(name, type_):
    """Where a column's simple values stand, as text with a % in their place, and their types."""
    if type_.startswith("struct"):
        return {(f'"{name}":{{"a":%}}', "int"), (f'"{name}":{{"b":{{"a":%}}}}', "date")}
    if type_.startswith("array"):
        return {(f'"{name}":[{{"a":%}}]', "float"), (f'"{name}":[null,{{"n":[%]}}]', "timestamp")}
    if type_.startswith("map"):
        return {(f'"{name}":{{"1":["x",%]}}', "string"), (f'"{name}":{{"1":null,%:[]}}', "string")}
    return {(f'"{name}":%', type_)}


def with_other_spelling(record, draw):
    """Some keys in other letters."""
    return record.upper() if draw(st.booleans()) and b"\\" not in record and b"t" not in record else record


@st.composite
def arguments(draw, records):
    """The records cut into arguments of all kinds."""
    found, at = [], 0
    while at < len(records):
        some = records[at : at + draw(st.integers(1, 12))]
        at += len(some)
        kind = draw(st.sampled_from(["text", "text", "items"]))
        if kind == "items":
            found.append(some)
            continue
        end = draw(st.sampled_from([b"", b"\n"]))
        found.append(draw(st.sampled_from([b"\n", b"\r\n"])).join(some) + end)
    return found


def forms(argument, form: int):
    """The same records in another kind of argument."""
    if isinstance(argument, list):
        return iter(argument) if form else tuple(argument)
    # An empty argument is an empty record, an empty stream is none.
    return [argument, bytearray(argument), io.BytesIO(argument or b"\n")][form]


@pytest.fixture(autouse=True)
def small_sample(monkeypatch):
    """So that keys turn up that the sample does not show."""
    monkeypatch.setattr(json_blocks, "SAMPLE_RECORDS", 2)


EVERY_LEAF = sorted(
    {(n, *leaf) for n, schema in enumerate(SCHEMAS) for c in schema.columns for leaf in _leaves(c.name, c.type)}
)


@pytest.mark.parametrize(("place", "name", "type_"), EVERY_LEAF)
def test_each_doubtful_value_is_read_as_the_oracle_reads_it(place, name, type_):
    """In a block that is clean otherwise, so that the fast path alone must see it."""
    columns = SCHEMAS[place].columns
    for value in [*unusual.get(type_, []), *doubtful[type_]]:
        record = "{" + name.replace("%", value) + "}"
        records = [b"{}"] * 5 + [record.encode("utf-8", "surrogateescape")] + [b"{}"]
        wanted = expected(records, lambda r: oracle.json_row(r, columns))
        for _ in each_way(json_blocks):
            check(run(StrictJsonWriter(), SCHEMAS[place], [records]), wanted, skips=False)


@pytest.mark.parametrize("decoy", DECOYS + [[junk] for junk in JUNK], ids=repr)
def test_no_misleading_text_splits_a_record_or_hides_a_key(decoy):
    records = [b'{"zz":1}', *[b"{}"] * 5, *decoy, b'{"zz":"x"}', b"{}"]
    for schema in SCHEMAS:
        columns = schema.columns
        wanted = expected(records, lambda r, columns=columns: oracle.json_row(r, columns))
        for _ in each_way(json_blocks):
            check(run(StrictJsonWriter(on_error="skip"), schema, [b"\n".join(records)]), wanted, skips=True)


@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    case=inputs(),
    block_bytes=st.sampled_from([1, 200, 1 << 20, 1 << 20]),
    skips=st.booleans(),
    unknown=st.sampled_from(["ignore", "ignore", "fail"]),
    form=st.integers(0, 2),
)
def test_one_record_is_one_row_with_the_oracles_values(case, block_bytes, skips, unknown, form):
    schema, given_arguments = case
    records = [r for argument in given_arguments for r in oracle.records_of(argument, is_json=True)]
    wanted = expected(records, lambda r: oracle.json_row(r, schema.columns, unknown_fields=unknown))
    for _ in each_way(json_blocks):
        writer = StrictJsonWriter(on_error="skip" if skips else "fail", unknown_fields=unknown, block_bytes=block_bytes)
        outcome = run(writer, schema, [forms(argument, form) for argument in given_arguments])
        check(outcome, wanted, skips=skips)
