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

import pytest

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


class S3Warehouses(WarehouseStore):
    """In a bucket of an S3 service of its own, under the path of the local folder."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    @classmethod
    @contextlib.contextmanager
    def running(cls, new_folder: Callable[[str], Path]) -> Iterator[WarehouseStore]:
        from tests.services.s3 import running_s3

        with running_s3(new_folder("s3")) as service, pytest.MonkeyPatch.context() as patch:
            for name, value in service.environment.items():
                patch.setenv(name, value)  # for processes that tests start, too
            yield cls(service.new_bucket())

    def warehouse_of(self, folder: Path) -> str:
        return f"s3a://{self._bucket}{folder}/warehouse"


class AzureWarehouses(WarehouseStore):
    """In a container of a service of Azure Storage of its own, under the path of the local folder."""

    def __init__(self, root: str) -> None:
        self._root = root

    @classmethod
    @contextlib.contextmanager
    def running(cls, new_folder: Callable[[str], Path]) -> Iterator[WarehouseStore]:
        from tests.services.azure import running_azure

        with running_azure(new_folder("azure")) as service, pytest.MonkeyPatch.context() as patch:
            for name, value in service.environment.items():
                patch.setenv(name, value)  # for processes that tests start, too
            yield cls(service.new_container())

    def warehouse_of(self, folder: Path) -> str:
        return f"{self._root}{folder}/warehouse"


#: By the value of `--warehouse`.
STORES: dict[str, type[WarehouseStore]] = {
    "local": LocalWarehouses,
    "hdfs": HdfsWarehouses,
    "s3": S3Warehouses,
    "azure": AzureWarehouses,
}
#: Marks a test of what takes the rename of a folder.
NEEDS_FOLDER_RENAMES = pytest.mark.not_on("s3", "azure", because="a folder cannot be renamed there")
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


def left_out_because(item: pytest.Item, store: str) -> str | None:
    """Why a test does not run on a store, by its markers `local_warehouse` and `not_on`; None if it runs."""
    # A marker without a reason is an error on every store, not only on the one that the test is left out on.
    local, without = _reason(item, "local_warehouse"), _reason(item, "not_on")
    if local is not None and store != "local":
        return local
    marker = item.get_closest_marker("not_on")
    return without if marker is not None and store in marker.args else None


def _reason(item: pytest.Item, name: str) -> str | None:
    marker = item.get_closest_marker(name)
    return None if marker is None else str(marker.kwargs["because"])


def store_path(uri: str) -> Path:
    """A path in a warehouse. On other stores than the local one it has the methods of `Path` that tests use."""
    location = Location.of(uri)
    if uri.startswith(("file:", "/")):
        return Path(location.path)
    return cast(Path, StorePath(location))
