"""Archives of tables that real Hive wrote: one for each Hive version, with names in ASCII.

`python -m tests.support.hive_tables FOLDER ARCHIVE` makes one. What each table holds is in tests/data/hive.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, unquote

DATA = Path(__file__).parents[1] / "data/hive"
VERSIONS = ("3.1.3", "4.0.1")


def archive_of(version: str) -> Path:
    """The archive of the tables that this version of Hive wrote."""
    return DATA / f"tables-{version}.tar.gz"


def unpack_all(folder: Path) -> Path:
    """Unpack the tables of every version below `folder`.

    Returns:
        `folder`, in which a table is `<version>/<table>`.
    """
    for version in VERSIONS:
        unpack(archive_of(version), folder / version)
    return folder


def pack(folder: Path, archive: Path) -> None:
    """Pack the files below `folder`, with the same bytes on every machine that has the same zlib.

    The names are percent-encoded: partition folders of Hive may hold any character, and not every file system,
    version control system or archiver keeps those outside ASCII as they are.
    """
    with (
        archive.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = path.read_bytes()
            member = tarfile.TarInfo(_encoded(path.relative_to(folder).as_posix()))
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def unpack(archive: Path, folder: Path) -> None:
    """Unpack what `pack` packed, under the original names."""
    with tarfile.open(archive, mode="r:gz") as tar:
        for member in tar:
            member.name = unquote(member.name)
            tar.extract(member, folder, filter="data")


def _encoded(name: str) -> str:
    return quote(name, safe="/=")


def main(arguments: Sequence[str]) -> None:
    """Pack the folder named first into the archive named second."""
    folder, archive = map(Path, arguments)
    pack(folder, archive)


if __name__ == "__main__":
    main(sys.argv[1:])
