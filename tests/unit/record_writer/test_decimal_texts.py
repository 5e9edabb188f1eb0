"""Decimals of any exponent and any number of digits neither end the process nor become other numbers."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import pytest

from hive_ingest.record_writer import CsvWriter, StrictDelimitedInputWriter, StrictJsonWriter, is_safe_block
from hive_ingest.streaming import infer_columns
from tests.unit.record_writer.writing import parse_all, schema_of

#: To Arrow's readers, each of these is an access outside of a table.
TINY = [
    "1e-99999999",
    "1E-99999999",
    "1e-00050",
    "0e-99999999",
    "1e-50",
    f"1.{'0' * 60}1",
    f"0.{'0' * 37}1e-9",
    "1e-2147483647",
]


@pytest.mark.parametrize("text", TINY)
@pytest.mark.parametrize("coerce", ["strict", "lossless", "hive"])
@pytest.mark.parametrize("kind", ["json", "text in json", "nested json", "csv", "comma", "delimited"])
def test_a_tiny_number_in_a_large_block_is_what_it_is_by_itself(text, coerce, kind):
    if kind == "comma":
        if coerce == "hive":
            return  # refused
        text = text.replace(".", ",")
    form = {"json": '{"v":%s}', "text in json": '{"v":"%s"}', "nested json": '{"v":[%s]}'}.get(kind, "%s")
    options = {"on_error": "skip", "coerce": coerce}
    writer = {
        "csv": lambda: CsvWriter(header=False, **options),
        "comma": lambda: CsvWriter(header=False, field_delimiter=";", decimal_point=",", **options),
        "delimited": lambda: StrictDelimitedInputWriter(**options),
    }.get(kind, lambda: StrictJsonWriter(**options))
    schema = schema_of(v="array<decimal(38,0)>" if kind == "nested json" else "decimal(38,0)")
    alone = parse_all(writer(), schema, form % text)
    many = parse_all(writer(), schema, f"{form % 1}\n" * 50 + f"{form % text}\n")
    rows = [row["v"] for parsed in many for row in parsed.batch.to_pylist()]
    one = [Decimal(1)] if kind == "nested json" else Decimal(1)
    assert rows == [one] * 50 + [row["v"] for parsed in alone for row in parsed.batch.to_pylist()]


@pytest.mark.parametrize("text", [*TINY, "1e99999999", "1e99999999999999999999999", "-1e-99999999999999999999999"])
@pytest.mark.parametrize("count", [1, 50])
def test_an_instant_of_any_exponent_is_a_bad_record(text, count):
    if text.startswith("0e"):
        return
    for form, make in (
        ('{"v":%s}', StrictJsonWriter),
        ('{"v":"%s"}', StrictJsonWriter),
        ("%s", StrictDelimitedInputWriter),
    ):
        writer = make(on_error="skip", timestamp_formats=["seconds"])
        (parsed,) = parse_all(writer, schema_of(v="timestamp"), f"{form % text}\n" * count)
        assert (parsed.skipped, parsed.batch.num_rows) == (count, 0)


def test_columns_are_inferred_from_tiny_numbers(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"v": 1e-99999999}\n{"v": 1e30}\n')
    code = f"from hive_ingest.streaming import infer_columns; print(infer_columns({str(path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, str(infer_columns(path)))


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":"6ba7b810-9dad-113e-80b4-00c04fd430c8","d":1.5e-9}',
        b'{"id":"6ba7b810-9dad-11d1-803e-123456789012"}',
        b'{"page":"page-12","d":1.5}',
        b'{"d":12345678901234567890.1234567890123456789012345678}',
    ],
)
def test_ordinary_text_is_read_at_once(text):
    assert is_safe_block(text)
