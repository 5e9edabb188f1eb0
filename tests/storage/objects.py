"""Files in a store, as tests make and read them, and the objects on S3 that they are."""

from __future__ import annotations

from hive_ingest.storage import Location

MIB = 1 << 20
#: Larger than a file that is written twice.
LARGE = b"rows" * (MIB // 2)


def put(location: Location, data: bytes = b"x") -> None:
    with location.create(sync=True) as out:
        out.write(data)


def stage(hidden: Location, target: Location, data: bytes = b"rows") -> None:
    """Write a file under a hidden name, to be renamed later."""
    hidden.announce_rename(target)
    put(hidden, data)


def content(location: Location) -> bytes:
    with location.open_input() as file:
        return bytes(file.read())


def bucket_of(location: Location) -> str:
    return str(location).removeprefix("s3a://").partition("/")[0]


def key_of(location: Location) -> str:
    return location.path[1:]
