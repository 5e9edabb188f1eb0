"""The file systems that a suite's warehouses lie on, chosen by `--warehouse`.

Another one is a subclass of `WarehouseStore` in `STORES`.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

from hive_ingest.storage import Location
from tests.support.store_path import StorePath


class WarehouseStore(ABC):
    """A file system for the warehouses of tests, running."""

    @classmethod
    @abstractmethod
    def running(cls, new_folder: Callable[[str], Path]) -> AbstractContextManager[WarehouseStore]:
        """Start it. `new_folder` makes a local folder for its files, by the beginning of a name."""

    @abstractmethod
    def warehouse_of(self, folder: Path) -> str:
        """The warehouse that belongs to a local folder; a path or a URI."""


class LocalWarehouses(WarehouseStore):
    """In the local folder itself."""

    @classmethod
    @contextlib.contextmanager
    def running(cls, new_folder: Callable[[str], Path]) -> Iterator[WarehouseStore]:
        yield cls()

    def warehouse_of(self, folder: Path) -> str:
        return f"{folder}/warehouse"


class HdfsWarehouses(WarehouseStore):
    """On an HDFS of its own, under the path of the local folder."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    @classmethod
    @contextlib.contextmanager
    def running(cls, new_folder: Callable[[str], Path]) -> Iterator[WarehouseStore]:
        from tests.services.hdfs import Hdfs

        with Hdfs(new_folder("hdfs")) as hdfs:
            yield cls(hdfs.uri)

    def warehouse_of(self, folder: Path) -> str:
        return f"{self._uri}{folder}/warehouse"


#: By the value of `--warehouse`.
STORES: dict[str, type[WarehouseStore]] = {"local": LocalWarehouses, "hdfs": HdfsWarehouses}
_chosen: WarehouseStore = LocalWarehouses()


@contextlib.contextmanager
def warehouses_on(name: str, new_folder: Callable[[str], Path]) -> Iterator[None]:
    """All warehouses of this process lie on the store of that name."""
    global _chosen
    before = _chosen
    with STORES[name].running(new_folder) as _chosen:
        try:
            yield
        finally:
            _chosen = before


def warehouse_in(folder: Path) -> str:
    """The warehouse of the tests in `folder`: in it, or on the store chosen by `--warehouse`."""
    return _chosen.warehouse_of(folder)


def store_path(uri: str) -> Path:
    """A path in a warehouse. On other stores than the local one it has the methods of `Path` that tests use."""
    location = Location.of(uri)
    if uri.startswith(("file:", "/")):
        return Path(location.path)
    return cast(Path, StorePath(location))
