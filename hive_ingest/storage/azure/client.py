"""Calls to Azure Storage, and what their errors mean.

The client is azure-storage-blob: it has every call of block blobs, so that blocks may be committed by another process
than the one that uploaded them, and, with azure-identity, knows all of Azure's sources of credentials.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hive_ingest.errors import ConfigurationError, PathExists, PathNotFound, StreamingIOFailure, UnsupportedFeature
from hive_ingest.storage.azure.options import AzureOptions

if TYPE_CHECKING:
    from azure.storage.blob import BlobClient, ContainerClient

T = TypeVar("T")

#: In a blob's metadata: tells our own blob from another's when a response was lost and the call was repeated.
TOKEN: Final = "hive_ingest_token"
#: The metadata of an empty blob that stands for a folder, as Hadoop's file system has it.
FOLDER: Final = "hdi_isfolder"
_CONNECTIONS: Final = 64
_CONNECT_SECONDS: Final = 10
_SILENCE_SECONDS: Final = 30
#: Repetitions of a request, each after three times the pause of the one before.
_REPETITIONS: Final = 4
_FIRST_PAUSE_SECONDS: Final = 0.1

_NOT_FOUND: Final = frozenset({"BlobNotFound", "ResourceNotFound", "PathNotFound", "404"})
_EXISTS: Final = frozenset(
    {"BlobAlreadyExists", "ResourceAlreadyExists", "PathAlreadyExists", "ConditionNotMet", "TargetConditionNotMet"}
)
_NO_BLOCKS: Final = frozenset({"InvalidBlockList"})
_DENIED = "permission denied: give these credentials the role Storage Blob Data Contributor on the container"
_BUSY = "the service limits the rate of requests: commit less often, or write to fewer partitions in a transaction"
_REMEDIES: Final = {
    "403": _DENIED,
    "AuthorizationFailure": _DENIED,
    "AuthorizationPermissionMismatch": _DENIED,
    "InsufficientAccountPermissions": _DENIED,
    "AuthenticationFailed": "the credentials are wrong or have expired, or the clock of this machine is: check them",
    "InvalidAuthenticationInfo": "the credentials are not accepted: check them",
    "NoAuthenticationInformation": "no credentials were sent: set fs.azure.account.key in core-site.xml, or log in",
    "ContainerNotFound": "there is no such container: create it, or correct the location",
    "InvalidBlockList": "its blocks were removed meanwhile: write the transaction again",
    "ServerBusy": _BUSY,
    "503": _BUSY,
}


class BlocksMissing(StreamingIOFailure):
    """The blocks were committed or removed."""


@dataclass(frozen=True, slots=True)
class Blob:
    """What the service says of a blob."""

    size_bytes: int
    content_type: str
    token: str
    is_folder: bool


class AzureClient:
    """One container. Methods raise StreamingIOFailure (PathNotFound, PathExists) and are safe from several threads."""

    def __init__(self, authority: str, options: Callable[[], AzureOptions]) -> None:
        """
        Args:
            authority: Of its locations.
            options: Called at the first use.
        """
        self.authority = authority
        self._options = options
        self._lock = threading.Lock()
        self._connected: tuple[int, ContainerClient] | None = None
        self._loaded: AzureOptions | None = None

    @property
    def options(self) -> AzureOptions:
        loaded = self._loaded
        if loaded is None:
            loaded = self._loaded = self._options()
        return loaded

    def uri(self, path: str) -> str:
        return f"abfs://{self.authority}{path}"

    def call(self, action: str, path: str, function: Callable[[ContainerClient], T]) -> T:
        """The result of one call, which `action` and `path` name in an error."""
        client = self._client()
        from azure.core.exceptions import AzureError, HttpResponseError

        try:
            return function(client)
        except HttpResponseError as error:
            raise azure_failure(action, self.uri(path), error) from error
        except AzureError as error:
            raise StreamingIOFailure(
                f"cannot {action} {self.uri(path)!r}: {error.message}. Check that the service can be reached; a "
                "request whose answer was lost may have taken effect"
            ) from error

    def call_blob(self, action: str, path: str, key: str, function: Callable[[BlobClient], T]) -> T:
        """The result of one call for a blob."""
        return self.call(action, path, lambda container: function(container.get_blob_client(key)))

    def head(self, path: str, key: str) -> Blob | None:
        """What the service says of a blob; None if there is none."""
        try:
            found = self.call_blob("look at", path, key, lambda blob: blob.get_blob_properties())
        except PathNotFound:
            return None
        metadata = found.metadata or {}
        return Blob(found.size, found.content_settings.content_type or "", metadata.get(TOKEN, ""), is_folder(metadata))

    def read(self, action: str, path: str, key: str, start: int, length: int) -> tuple[bytes, int, Any]:
        """Bytes of a blob, its whole size, and its properties. There may be less than `length`."""

        def read(blob: BlobClient) -> tuple[bytes, int, Any]:
            from azure.core.exceptions import HttpResponseError

            try:
                stream = blob.download_blob(offset=start, length=length, max_concurrency=1)
            except HttpResponseError as error:
                if start or error.status_code != 416:
                    raise
                return b"", 0, blob.get_blob_properties()  # no range is one of an empty blob
            data = stream.readall()
            whole = str(stream.properties.content_range or "").rpartition("/")[2]
            return data, int(whole) if whole.isdigit() else len(data), stream.properties

        return self.call_blob(action, path, key, read)

    def put_new(
        self,
        action: str,
        path: str,
        key: str,
        data: bytes | bytearray,
        *,
        token: str | None = None,
        content_type: str = "application/octet-stream",
        is_folder: bool = False,
    ) -> None:
        """Create a blob in one request. Raises PathExists, unless the blob there has this token."""
        token = token or uuid.uuid4().hex
        metadata = {TOKEN: token} | ({FOLDER: "true"} if is_folder else {})

        def put(blob: BlobClient) -> None:
            from azure.storage.blob import ContentSettings

            blob.upload_blob(
                bytes(data), metadata=metadata, overwrite=False, content_settings=ContentSettings(content_type)
            )

        self.take_name(action, path, key, token, put)

    def take_name(self, action: str, path: str, key: str, token: str, request: Callable[[BlobClient], None]) -> None:
        """Make a conditional request that creates a blob with this token.

        A request whose answer was lost is repeated, and the repeated one fails because the blob exists: the token tells
        whether it is ours.

        Raises:
            PathExists: The blob is of another writer.
            BlocksMissing: The blocks that it is made of are gone.
        """
        try:
            self.call_blob(action, path, key, request)
        except (PathExists, BlocksMissing):
            if not self.has_token(path, key, token):
                raise

    def has_token(self, path: str, key: str, token: str) -> bool:
        """Whether the blob there is the one that was created with this token."""
        found = self.head(path, key)
        return found is not None and found.token == token

    def delete(self, path: str, key: str) -> None:
        """Delete a blob; a missing one is not an error."""
        try:
            self.call_blob("delete", path, key, lambda blob: blob.delete_blob())
        except PathNotFound:
            return

    def _client(self) -> ContainerClient:
        connected = self._connected
        if connected is None or connected[0] != os.getpid():  # connections do not survive a fork
            with self._lock:
                connected = self._connected
                if connected is None or connected[0] != os.getpid():
                    connected = self._connected = (os.getpid(), self._connect())
        return connected[1]

    def _connect(self) -> ContainerClient:
        try:
            import requests
            from azure.core.pipeline.transport import RequestsTransport
            from azure.storage.blob import BlobServiceClient
        except ImportError as error:
            raise UnsupportedFeature(
                f"abfs://{self.authority} is on Azure Storage: install its client (pip install 'hive-ingest[azure]')"
            ) from error
        options = self.options
        session = requests.Session()
        for scheme in ("https://", "http://"):
            session.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS))
        more: dict[str, Any] = {
            "transport": RequestsTransport(
                session=session,
                session_owner=False,
                connection_timeout=_CONNECT_SECONDS,
                read_timeout=_SILENCE_SECONDS,
            ),
            "retry_policy": _retry_policy(),
        }
        try:
            if options.connection_string:
                service = BlobServiceClient.from_connection_string(options.connection_string, **more)
            else:
                service = BlobServiceClient(options.endpoint, credential=options.credential, **more)
        except ValueError as error:
            raise ConfigurationError(f"abfs://{self.authority} cannot be opened: {error}") from error
        return service.get_container_client(options.container)

    def __getstate__(self) -> Any:
        raise TypeError("a client of Azure Storage belongs to its process: pass the location's URI on")


def _retry_policy() -> Any:
    from azure.storage.blob import ExponentialRetry

    class Retry(ExponentialRetry):
        """With shorter pauses: the client's own are 18, 24 and 42 seconds."""

        def get_backoff_time(self, settings: Any) -> float:
            return _FIRST_PAUSE_SECONDS * float(3 ** settings["count"])

    most = _REPETITIONS
    return Retry(retry_total=most, retry_connect=most, retry_read=most, retry_status=most)


def is_folder(metadata: Any) -> bool:
    """Whether a blob with this metadata stands for a folder."""
    return any(name.lower() == FOLDER and value.lower() == "true" for name, value in (metadata or {}).items())


def azure_failure(action: str, uri: str, error: Any) -> StreamingIOFailure:
    """The error to raise `from` one that the service answered."""
    found = getattr(error, "error_code", None) or error.status_code or ""
    code = str(getattr(found, "value", found))  # some are members of an enumeration
    text = str(error.message).partition("\n")[0]
    if code in _NOT_FOUND:
        return PathNotFound(f"cannot {action} {uri!r}: no such file or folder: it is missing, or the location is wrong")
    if code in _EXISTS or error.status_code == 412:
        return PathExists(f"cannot {action} {uri!r}: it exists already and is never replaced")
    kind = BlocksMissing if code in _NO_BLOCKS else StreamingIOFailure
    remedy = _REMEDIES.get(code) or _REMEDIES.get(str(error.status_code))
    return kind(f"cannot {action} {uri!r}: {remedy} ({code}: {text})" if remedy else f"cannot {action} {uri!r}: {text}")
