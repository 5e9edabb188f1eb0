"""What an ORC file says about itself: of our files and of Hive's, in one form, to be compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from hive_ingest.orc.format.codec import unpack
from hive_ingest.orc.format.protobuf import read_fields
from hive_ingest.orc.format.tail import OrcTail, read_tail
from tests.interop.hive import RealHive

_WRITER_TIMEZONE = 3  # of orc_proto.proto's StripeFooter
_TYPE_FIELDS = {1: "kind", 4: "length", 5: "precision", 6: "scale"}
_STATISTICS = re.compile(r"Column (\d+): (count: .*)")
_STATISTIC = re.compile(r"(\w+): (.*?)(?= \w+: |$)")
_ENCODING = re.compile(r"Encoding column (\d+): (\w+)")


def writer_timezones(path: Path) -> set[str]:
    """Those that the stripe footers name."""
    with pa.OSFile(str(path)) as source:
        tail = read_tail(source, str(path))
        codec, block_size = tail.postscript.codec, tail.postscript.block_size
        found = set()
        for stripe in tail.footer.stripes:
            start = stripe.offset + stripe.index_length + stripe.data_length
            footer = unpack(source.read_at(stripe.footer_length, start), codec, block_size)
            found |= {f.as_bytes.decode() for f in read_fields(footer) if f.number == _WRITER_TIMEZONE}
    return found


def described(hive: RealHive, path: Path) -> dict[str, str]:
    """All that a reader may ask of the file: "type row.n precision": "20", "statistics row.n max": …"""
    with pa.OSFile(str(path)) as source:
        tail = read_tail(source, str(path))
    footer, names = tail.footer, _column_names(tail, 0, "")
    found = {
        "file name": path.name,
        "folder name": path.parent.name,
        "acid version": (path.parent / "_orc_acid_version").read_text(),
        "compression": tail.postscript.codec.name,
        "block size": str(tail.postscript.block_size),
        "format": str(tail.postscript.version),
        "writer": f"{footer.writer} {tail.postscript.writer_version} {footer.software_version!r}",
        "calendar": str(footer.calendar),
        "time zone": " ".join(sorted(writer_timezones(path))),
        "rows": str(footer.rows),
        "stripes": str(len(footer.stripes)),
        "row index stride": str(footer.row_index_stride),
        "columns": " ".join(names),
    }
    items = footer.user_metadata.items()
    found |= {f"metadata {key}": value.decode() for key, value in items if key.startswith("hive.")}
    for name, type_ in zip(names, footer.types, strict=True):
        fields = {field.number: field.as_int for field in read_fields(type_) if field.number in _TYPE_FIELDS}
        # C++ writes the zeros of what a type does not have.
        found |= {f"type {name} {_TYPE_FIELDS[number]}": str(v) for number, v in fields.items() if v or number == 1}
    return found | _from_dump(hive.dump(path), names)


def _column_names(tail: OrcTail, number: int, name: str) -> list[str]:
    """Dotted, in the order of their numbers, which count a column before those inside it."""
    children, inner = [], []
    for field in read_fields(tail.footer.types[number]):
        if field.number == 2:
            children += [field.value] if isinstance(field.value, int) else list(field.value)  # all below 128
        elif field.number == 3:
            inner.append(field.as_bytes.decode())
    inner = inner or [f"[{i}]" for i in range(len(children))]
    names = [name]
    for child, child_name in zip(children, inner, strict=True):
        names += _column_names(tail, child, f"{name}.{child_name}" if name else child_name)
    return names


def _from_dump(dump: str, names: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for section, line in _sections(dump):
        if match := _STATISTICS.search(line):
            name = names[int(match[1])]
            found |= {f"{section} {name} {key}": value for key, value in _STATISTIC.findall(match[2])}
        elif match := _ENCODING.search(line):
            found[f"encoding {names[int(match[1])]}"] = match[2]
    return found


def _sections(dump: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in dump.splitlines():
        if match := re.match(r" *(Stripe Statistics|File Statistics|Stripes|Stripe \d+):", line):
            section = match[1].lower()
        yield section, line
