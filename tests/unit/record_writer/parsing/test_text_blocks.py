"""Text is cut into blocks of whole records, numbered, whatever it came in as."""

from __future__ import annotations

import io

import pytest

from hive_ingest.errors import ConfigurationError, SerializationError, StreamingIOFailure
from hive_ingest.record_writer import StrictDelimitedInputWriter, StrictJsonWriter
from tests.unit.record_writer.parsing.writing import blocks_of, schema_of


def records(*arguments, **options):
    writer = StrictDelimitedInputWriter(**options)
    writer.bind(schema_of(v="string"))
    return [record for block in blocks_of(writer, *arguments) for record in block.split()]


@pytest.mark.parametrize(
    ("argument", "wanted"),
    [
        (b"a\nb", [b"a", b"b"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"a\r", [b"a\r"]),
        (b"\n", [b""]),
        (b"a\n\n", [b"a", b""]),
        (b"\n\na", [b"", b"", b"a"]),
        (b"", []),
        ("é\n", ["é".encode()]),
        (bytearray(b"a\nb"), [b"a", b"b"]),
        (memoryview(b"a\nb"), [b"a", b"b"]),
        (io.BytesIO(b"a\nb"), [b"a", b"b"]),
        (io.StringIO("é\nb\n"), ["é".encode(), b"b"]),
        ([b"a\nb\n", b"", "c"], [b"a\nb\n", b"", b"c"]),
        ((b"a\r",), [b"a\r"]),
        ((record for record in [b"a", "b"]), [b"a", b"b"]),
        ([], []),
    ],
)
def test_an_argument_is_split_by_the_rules(argument, wanted):
    assert records(argument) == wanted


def test_the_end_of_an_argument_ends_its_last_record():
    assert records(b"a", b"b\n", b"c\nd", [b"e"], b"\n", b"f\r", b"\ng") == [
        *(b"a", b"b", b"c", b"d", b"e", b"", b"f\r", b"", b"g")
    ]


def test_a_delimiter_of_ones_own_leaves_newlines_alone():
    assert records(b"a;b\nc;;d\r;", line_delimiter=";") == [b"a", b"b\nc", b"", b"d\r"]
    assert records(b"a;b", line_delimiter=";") == [b"a", b"b"]
    writer = StrictJsonWriter(line_delimiter=";")
    assert [b.split() for b in blocks_of(writer, b'{"a":\n1};{}', io.BytesIO(b"1;2;"))] == [
        [b'{"a":\r1}', b"{}", b"1", b"2"]
    ]


def test_a_path_is_read_and_a_bad_one_is_named(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(b"a\nb")
    assert records(path) == [b"a", b"b"]
    with pytest.raises(StreamingIOFailure, match="missing"):
        records(tmp_path / "missing")


@pytest.mark.parametrize("block_bytes", [1, 3, 10, 1000])
def test_blocks_are_about_as_large_as_asked_and_never_cut_a_record(block_bytes):
    lines = [b"x" * (i % 7) for i in range(51)]
    for argument in (b"\n".join(lines) + b"\n", io.BytesIO(b"\n".join(lines)), lines):
        writer = StrictDelimitedInputWriter(block_bytes=block_bytes)
        blocks = blocks_of(writer, argument)
        assert [record for block in blocks for record in block.split()] == lines
        assert [block.first_record for block in blocks] == [
            sum(b.records for b in blocks[:i]) for i in range(len(blocks))
        ]
        if not isinstance(argument, list):
            assert all(len(block.lines) <= max(block_bytes * 3 // 2, 7) for block in blocks)


def test_a_file_of_any_size_passes_block_by_block():
    class Endless(io.RawIOBase):
        def read(self, size=-1):
            return b"a\n" * (size // 2)

    writer = StrictDelimitedInputWriter(block_bytes=1000)
    blocks = iter(writer.write(Endless()))
    assert sum(next(blocks).records for _ in range(10)) == 5000


def test_an_endless_generator_passes_block_by_block():
    def endless():
        while True:
            yield b"a" * 9

    blocks = iter(StrictJsonWriter(block_bytes=1000).write(endless()))
    assert all(next(blocks).nbytes >= 1000 for _ in range(5))


def test_small_records_are_kept_until_a_block_is_worth_parsing():
    writer = StrictJsonWriter(block_bytes=100)
    answers = [list(writer.write(b"{}" * 5)) for _ in range(25)]
    assert [len(blocks) for blocks in answers] == ([0] * 9 + [1]) * 2 + [0] * 5
    assert sum(block.records for block in writer.drain()) == 5
    assert list(writer.drain()) == []


def test_numbers_and_offsets_go_on_over_blocks_and_start_anew_after_discard():
    writer = StrictDelimitedInputWriter(block_bytes=4)
    first = blocks_of(writer, b"ab\ncd\nef\n", [b"x\ny", b"z"], b"end")
    assert [(b.first_record, b.first_offset, b.records) for b in first] == [
        *((0, 0, 1), (1, 3, 1), (2, 6, 1), (3, 9, 2), (5, 15, 1))
    ]
    writer.write(b"lost")
    writer.discard()
    (block,) = blocks_of(writer, b"a")
    assert (block.first_record, block.first_offset, block.split()) == (0, 0, [b"a"])


def test_a_byte_offset_counts_a_delimiter_behind_every_record():
    writer = StrictDelimitedInputWriter()
    (block,) = blocks_of(writer, b"ab\r\nc\n", b"de", b"f")
    assert [block.offset_of(i) for i in range(4)] == [0, 4, 6, 9]
    (block,) = blocks_of(writer, [b"a\nb", b"c"])
    assert [block.offset_of(i) - block.first_offset for i in range(2)] == [0, 4]


@pytest.mark.parametrize("argument", [1, None, [1], [None], 1.5, [[b"a"]], object()])
def test_what_is_no_text_is_refused_with_a_remedy(argument):
    with pytest.raises(SerializationError, match=r"StrictDelimitedInputWriter cannot take a .*write bytes"):
        records(argument)


@pytest.mark.parametrize(
    "options", [{"line_delimiter": "\r\n"}, {"line_delimiter": ""}, {"line_delimiter": "é"}, {"block_bytes": 0}]
)
def test_options_that_cannot_be_meant_are_refused(options):
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        StrictJsonWriter(**options)
