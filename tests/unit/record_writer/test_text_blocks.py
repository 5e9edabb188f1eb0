"""Text is cut into blocks of whole records, numbered, whatever it came in as."""

from __future__ import annotations

import io
import os
import socket

import pytest

from hive_ingest.errors import ConfigurationError, SerializationError, StreamingIOFailure
from hive_ingest.record_writer import StrictDelimitedInputWriter, StrictJsonWriter
from tests.unit.record_writer.writing import blocks_of, parse_all, schema_of


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
        (b"", [b""]),
        ("", [b""]),
        (bytearray(), [b""]),
        (memoryview(b""), [b""]),
        ([b""], [b""]),
        (io.BytesIO(), []),
        (io.StringIO(), []),
        (io.BytesIO(b"\n"), [b""]),
        (io.BytesIO(b"a\n\n"), [b"a", b""]),
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


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([b"a\n", b"b\n", b"c"], [b"a", b"b", b"c"]),
        ([b"a\n", b"b", b"c\n"], [b"a", b"b", b"c"]),
        ([b"a", b"b\n", b"c"], [b"a", b"b", b"c"]),
        ([b"a", b"b", b"c"], [b"a", b"b", b"c"]),
        ([b"a\n\n", b"b\n"], [b"a", b"", b"b"]),
        ([b"a", b"b\n\n", b"c"], [b"a", b"b", b"", b"c"]),
        ([b"\n", b"a"], [b"", b"a"]),
    ],
)
def test_arguments_may_end_in_a_newline_or_not(arguments, wanted):
    assert records(*arguments) == wanted


def test_a_custom_delimiter_leaves_newlines_unchanged():
    assert records(b"a;b\nc;;d\r;", line_delimiter=";") == [b"a", b"b\nc", b"", b"d\r"]
    assert records(b"a;b", line_delimiter=";") == [b"a", b"b"]
    writer = StrictJsonWriter(line_delimiter=";")
    assert [b.split() for b in blocks_of(writer, b'{"a":\n1};{}', io.BytesIO(b"1;2;"))] == [
        [b'{"a":\r1}', b"{}", b"1", b"2"]
    ]


def test_a_file_path_is_read_and_a_missing_file_is_named(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(b"a\nb")
    assert records(path) == [b"a", b"b"]
    with pytest.raises(StreamingIOFailure, match="missing"):
        records(tmp_path / "missing")


@pytest.mark.parametrize("block_bytes", [1, 3, 10, 1000])
def test_blocks_have_about_the_requested_size_and_never_split_a_record(block_bytes):
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


def test_small_records_are_collected_until_a_block_is_worth_parsing():
    writer = StrictJsonWriter(block_bytes=100)
    answers = [list(writer.write(b"{}" * 5)) for _ in range(25)]
    assert [len(blocks) for blocks in answers] == ([0] * 9 + [1]) * 2 + [0] * 5
    assert sum(block.records for block in writer.drain()) == 5
    assert list(writer.drain()) == []


def test_numbers_and_offsets_continue_over_blocks_and_restart_after_discard():
    writer = StrictDelimitedInputWriter(block_bytes=4)
    first = blocks_of(writer, b"ab\ncd\nef\n", [b"x\ny", b"z"], b"end")
    assert [(b.first_record, b.first_offset, b.records) for b in first] == [
        *((0, 0, 1), (1, 3, 1), (2, 6, 1), (3, 9, 2), (5, 15, 1))
    ]
    writer.write(b"lost")
    writer.discard()
    (block,) = blocks_of(writer, b"a")
    assert (block.first_record, block.first_offset, block.split()) == (0, 0, [b"a"])


def test_a_byte_offset_counts_a_delimiter_after_every_record():
    writer = StrictDelimitedInputWriter()
    (block,) = blocks_of(writer, b"ab\r\nc\n", b"de", b"f")
    assert [block.offsets()[i] for i in range(4)] == [0, 4, 6, 9]
    (block,) = blocks_of(writer, [b"a\nb", b"c"])
    assert [block.offsets()[i] - block.first_offset for i in range(2)] == [0, 4]


@pytest.mark.parametrize("argument", [1, None, [1], [None], 1.5, [[b"a"]], object()])
def test_an_item_that_is_not_text_is_refused_with_a_remedy(argument):
    with pytest.raises(SerializationError, match=r"StrictDelimitedInputWriter does not accept a .*write bytes"):
        records(argument)


@pytest.mark.parametrize(
    "options", [{"line_delimiter": "\r\n"}, {"line_delimiter": ""}, {"line_delimiter": "é"}, {"block_bytes": 0}]
)
def test_invalid_options_are_refused(options):
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        StrictJsonWriter(**options)


# -- empty arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", [b"", "", bytearray(), memoryview(b""), b"\n", [b""]])
@pytest.mark.parametrize("delimiter", ["\n", ";"])
def test_an_empty_argument_is_an_empty_record_and_does_not_vanish(empty, delimiter):
    """A Kafka consumer hands over empty values: each was once no record and no error."""
    if empty == b"\n":
        empty = delimiter.encode()
    assert records(b"a", empty, empty, b"b", line_delimiter=delimiter) == [b"a", b"", b"", b"b"]
    with pytest.raises(SerializationError, match=r"^record 1 \(at byte 11\): an empty "):
        parse_all(StrictJsonWriter(line_delimiter=delimiter), schema_of(v="string"), b'{"v":null}', empty)
    (parsed,) = parse_all(StrictJsonWriter(on_error="skip"), schema_of(v="string"), b'{"v":""}', b"", b'{"v":null}')
    assert (parsed.records, parsed.skipped) == (3, 1)
    with pytest.raises(SerializationError, match="record 0"):
        parse_all(StrictDelimitedInputWriter(), schema_of(v="string", w="string"), b"")


def test_empty_records_are_not_kept_without_end():
    writer = StrictDelimitedInputWriter(block_bytes=100)
    assert sum(block.records for _ in range(1000) for block in writer.write(b"")) == 1000


# -- streams ---------------------------------------------------------------------------------------


class Stream:
    """A stream of given answers to `read`."""

    def __init__(self, *answers):
        self.answers = iter(answers)

    def read(self, size):
        answer = next(self.answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def pipe():
    """The end to read, which does not block, and the one to write."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with open(writing, "wb", buffering=0) as out:
        yield reading, out


@pytest.mark.parametrize(
    "opened", [{"mode": "rb", "buffering": 0}, {"mode": "rb"}, {"mode": "r"}], ids=["raw", "buffered", "text"]
)
def test_a_non_blocking_stream_without_data_is_not_taken_for_its_end(pipe, opened):
    """None from `read()`, and "" of a text stream over one that gave None, once ended the input in silence."""
    reading, out = pipe
    out.write(b"a\nb\n")
    with open(reading, **opened) as stream:
        _refused_until_it_ends(stream, out)


def _refused_until_it_ends(stream, out):
    with pytest.raises(StreamingIOFailure, match=r"non-blocking stream that has no data now.*make it blocking"):
        records(stream)
    out.close()
    assert records(stream) == []


def test_a_text_stream_over_a_socket_with_a_timeout_ends_with_the_socket():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(5)
        theirs.sendall(b"a\nb")
        theirs.shutdown(socket.SHUT_WR)
        with ours.makefile("r") as stream:
            assert records(stream) == [b"a", b"b"]


@pytest.mark.parametrize(
    "error", [BlockingIOError("no data"), TimeoutError("timed out"), ConnectionResetError("reset")]
)
def test_an_error_of_a_stream_is_not_taken_for_its_end(error):
    with pytest.raises(StreamingIOFailure, match=f"cannot read a Stream: {error}"):
        records(Stream(b"a\n", error))


def test_a_text_stream_that_is_not_utf8_is_refused_by_name(tmp_path):
    path = tmp_path / "latin"
    path.write_bytes(b"schl\xe4cht\n")
    with (
        path.open(encoding="utf-8") as file,
        pytest.raises(StreamingIOFailure, match=r"cannot read '.*latin': .*utf-8"),
    ):
        records(file)


def test_short_reads_are_joined():
    pieces = [bytes([byte]) for byte in b"ab\r\nc\n\nde"]
    assert records(Stream(*pieces, b"")) == [b"ab", b"c", b"", b"de"]
    assert records(Stream("a", "é\n", "b", "")) == ["aé".encode(), b"b"]
    assert records(Stream(bytearray(b"a;"), memoryview(b"b"), b""), line_delimiter=";") == [b"a", b"b"]


# -- long records ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argument",
    [
        b"a\nb\n" + b"x" * 11 + b"\nc",
        b"a\nb\n" + b"x" * 11,
        [b"a", b"b", b"x" * 11, b"c"],
        ["a", "b", "x" * 5 + "\n" + "x" * 5],
        io.BytesIO(b"a\nb\n" + b"x" * 11 + b"\nc"),
        io.StringIO("a\nb\n" + "x" * 11),
    ],
    ids=["text", "last", "items", "item with a newline", "file", "text stream"],
)
@pytest.mark.parametrize("block_bytes", [1, 4, 1 << 20])
def test_a_record_that_is_too_long_is_named(argument, block_bytes):
    """A record of 100 MB once took 2 GiB."""
    if hasattr(argument, "seek"):
        argument.seek(0)
    writer = StrictDelimitedInputWriter(max_record_bytes=10, block_bytes=block_bytes, on_error="skip")
    writer.bind(schema_of(v="string"))
    with pytest.raises(
        SerializationError, match=r"^record 5 \(at byte 13\): it is longer than max_record_bytes=10"
    ) as caught:
        blocks_of(writer, b"yyyy\n", b"y\ny", argument)
    assert (caught.value.record, caught.value.byte_offset) == (5, 13)


@pytest.mark.parametrize("block_bytes", [1, 4, 25, 1 << 20])
def test_records_of_exactly_the_maximum_length_are_accepted(block_bytes):
    lines = [b"x" * 10, b"", b"y" * 10, b"z" * 9] * 3
    for argument in (b"\n".join(lines), b"\n".join(lines) + b"\n", lines, io.BytesIO(b"\n".join(lines))):
        assert records(argument, max_record_bytes=10, block_bytes=block_bytes) == lines


def test_a_record_that_never_ends_is_refused_in_bounded_memory():
    given = []

    class Endless:
        def read(self, size):
            given.append(size)
            return b"x" * size

    with pytest.raises(SerializationError, match=r"^record 0 \(at byte 0\): it is longer than max_record_bytes=10000"):
        records(Endless(), max_record_bytes=10_000, block_bytes=1000)
    assert sum(given) <= 11_000


def test_large_items_of_a_generator_are_not_collected():
    alive = []

    def items():
        for _ in range(100):
            alive.append(1)
            yield b"x" * 1000

    blocks = iter(StrictDelimitedInputWriter(block_bytes=1000).write(items()))
    next(blocks)
    assert len(alive) < 10


# -- patterns --------------------------------------------------------------------------------------

PATTERNS = [
    (r"\r?\n", b"a\r\nb\n\nc\r", [b"a", b"b", b"", b"c\r"]),
    (r"\n(?=\d{4}-)", b"2024-01 x\n  at y\n2024-02 z\n", [b"2024-01 x\n  at y", b"2024-02 z\n"]),
    (r"\s*;\s*", b"a ;\n b;c", [b"a", b"b", b"c"]),
    (r";+", b"a;;b;", [b"a", b"b"]),
    (r"(;)|(,)", b";a,b", [b"", b"a", b"b"]),
    (r"(?=b)|;", b"ab;c", [b"ab", b"c"]),
]


@pytest.mark.parametrize(("pattern", "text", "wanted"), PATTERNS)
def test_what_a_pattern_matches_separates_records(pattern, text, wanted):
    assert records(text, line_delimiter_pattern=pattern) == wanted
    assert records(io.BytesIO(text), line_delimiter_pattern=pattern) == wanted
    assert records([b"a;\r\nb", b""], line_delimiter_pattern=pattern) == [b"a;\r\nb", b""]
    assert records(b"", line_delimiter_pattern=pattern) == [b""]


@pytest.mark.parametrize("block_bytes", [1, 7, 5000])
@pytest.mark.parametrize(("pattern", "text", "wanted"), PATTERNS)
def test_a_stream_is_divided_as_its_whole_text_is(pattern, text, wanted, block_bytes):
    """Wherever the stream is cut, and however much of it is read at once."""
    text = text.removesuffix(b"\n") * 900
    options = {"line_delimiter_pattern": pattern, "block_bytes": block_bytes}
    found = records(io.BytesIO(text), **options)
    assert found == records(text, **options)
    assert len(found) > 900


def test_a_record_of_a_stream_that_no_pattern_ends_is_too_long():
    stream = io.BytesIO(b"ok;" + b"x" * 100_000)
    with pytest.raises(SerializationError, match=r"record 1 \(at byte 3\): it is longer"):
        records(stream, line_delimiter_pattern=";", max_record_bytes=10_000, block_bytes=5_000)
    assert 0 < stream.tell() < 50_000


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"line_delimiter_pattern": "("}, "not a regular expression"),
        ({"line_delimiter_pattern": "é"}, "in ASCII"),
        ({"line_delimiter_pattern": ";*"}, "matches the empty text"),
        ({"line_delimiter_pattern": ";", "line_delimiter": "|"}, "give one"),
    ],
)
@pytest.mark.parametrize("new_writer", [StrictJsonWriter, StrictDelimitedInputWriter])
def test_invalid_patterns_are_refused(new_writer, options, why):
    with pytest.raises(ConfigurationError, match=why):
        new_writer(**options)


def test_json_of_several_lines_is_divided_by_a_pattern():
    text = b'{"v":\n "a"\n}\n---\n{"v": "b"}\n--- \n'
    (parsed,) = parse_all(StrictJsonWriter(line_delimiter_pattern=r"\n--- *\n"), schema_of(v="string"), text)
    assert parsed.batch.to_pylist() == [{"v": "a"}, {"v": "b"}]
