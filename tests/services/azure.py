"""A service of Azure Storage for tests, Microsoft's Azurite, in a process of its own."""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from azure.storage.blob import BlobServiceClient, ContainerClient

from tests.services.azure_faults import AzureFault, FaultyProxy
from tests.services.node import node, node_modules
from tests.services.ports import free_port
from tests.services.server import Server

_ACCOUNT, _KEY = "testing", base64.b64encode(b"a key for tests").decode()


class AzureFailed(Exception):
    """The service did not start; the message ends with its log."""


class AzureService(Server):
    """A running service of one account, which keeps its blobs in memory. `folder` has its log."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._port = free_port()
        self._proxy: FaultyProxy | None = None
        self._containers = itertools.count(1)

    def start(self) -> None:
        """Start it and wait until it answers. Raises AzureFailed."""
        program = node_modules() / "azurite" / "dist" / "src" / "blob" / "main.js"
        options = ["--blobHost", "127.0.0.1", "--blobPort", str(self._port)]
        more = ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        command = ["env", f"AZURITE_ACCOUNTS={_ACCOUNT}:{_KEY}", str(node()), str(program), *options, *more]
        self._launch(command, self._log, self.folder)
        self.wait()
        self._proxy = FaultyProxy(self._port)

    def stop(self) -> None:
        if self._proxy is not None:
            self._proxy.stop()
            self._proxy = None
        super().stop()

    @property
    def proxy(self) -> FaultyProxy:
        """What requests pass through, as long as this process runs."""
        assert self._proxy is not None
        return self._proxy

    def set_faults(self, *faults: AzureFault) -> None:
        """Replaces faults that have not happened, and counts requests from here."""
        self.proxy.set_faults(*faults)

    @property
    def environment(self) -> dict[str, str]:
        """Of processes that use it."""
        return {"AZURE_STORAGE_CONNECTION_STRING": self._connection_string(self._port)}

    @property
    def environment_with_faults(self) -> dict[str, str]:
        """Of this process, whose requests are counted and fail on demand."""
        return {"AZURE_STORAGE_CONNECTION_STRING": self._connection_string(self.proxy.port)}

    def _connection_string(self, port: int) -> str:
        endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
        return f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={_KEY};BlobEndpoint={endpoint};"

    def new_container(self) -> str:
        """Make a container of a new name. Returns the location of its root."""
        name = f"container-{os.getpid()}-{next(self._containers)}"
        self.container(name).create_container()
        return f"abfs://{name}@{_ACCOUNT}.dfs.core.windows.net"

    def container(self, name: str) -> ContainerClient:
        """A client of its own, for what a test looks at."""
        return BlobServiceClient.from_connection_string(self._connection_string(self._port)).get_container_client(name)

    def names(self, root: str, *, uncommitted: bool = False) -> list[str]:
        """Of all blobs in a container, by the location of its root; also of those without committed blocks."""
        container = self.container(root.removeprefix("abfs://").partition("@")[0])
        return [blob.name for blob in container.list_blobs(include=["uncommittedblobs"] if uncommitted else None)]

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False

    def _failure(self) -> Exception:
        return AzureFailed(f"Azurite did not start; its log ends:\n{self._log.read_text()[-4000:]}")

    @property
    def _log(self) -> Path:
        return self.folder / "azurite.log"


@contextlib.contextmanager
def running_azure(folder: Path) -> Iterator[AzureService]:
    """A new and empty service with its log in `folder`. Raises AzureFailed."""
    service = AzureService(folder)
    service.start()
    try:
        yield service
    finally:
        service.stop()
