"""Calls to S3, and what their errors mean.

The client is boto3: it has every call of multipart uploads, so that an upload may be completed by another process than
the one that began it, and knows all of AWS's sources of credentials.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Final, TypeVar

from hive_ingest.errors import ConfigurationError, PathExists, PathNotFound, StreamingIOFailure, UnsupportedFeature
from hive_ingest.storage.s3.options import S3Options

T = TypeVar("T")

#: In an object's metadata: tells our own object from another's when a response was lost and the call was repeated.
TOKEN: Final = "hive-ingest-token"
_CONNECTIONS: Final = 64
_CONNECT_SECONDS: Final = 10
_CONFLICT_PAUSE_SECONDS: Final = 0.05

_NOT_FOUND: Final = frozenset({"404", "NoSuchKey", "NotFound"})
_EXISTS: Final = frozenset({"412", "PreconditionFailed"})
_CONFLICT: Final = frozenset({"409", "ConditionalRequestConflict", "OperationAborted"})
_NO_UPLOAD: Final = frozenset({"NoSuchUpload"})
_DENIED = "permission denied: give these credentials the right to list, read, write and delete there"
_NO_CREDENTIALS = (
    "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or fs.s3a.access.key and "
    "fs.s3a.secret.key in core-site.xml"
)
_EXPIRED = "the credentials have expired: renew them (aws sso login, or a new session token)"
_BUSY = "the service limits the rate of requests: commit less often, or write to fewer partitions in a transaction"
_CLOCK = "the clock of this machine differs from the service's: correct it"
_NO_CONDITIONS = (
    "the service lacks this request, or conditional writes (If-None-Match), without which two writers replace each "
    "other's files"
)
#: Answers of HeadObject have no code of their own.
_WITHOUT_CODE = "or the credentials have expired, or the clock of this machine is wrong: the answer does not say which"
#: After these, credentials are read again by the next call: whoever renews them need not restart the process.
_OUTDATED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "InvalidToken", "InvalidAccessKeyId", "400"})
_REMEDIES: Final = {
    "400": f"the request was refused, {_WITHOUT_CODE}",
    "403": f"{_DENIED}, {_WITHOUT_CODE}",
    "501": _NO_CONDITIONS,
    "NotImplemented": _NO_CONDITIONS,
    "AccessDenied": _DENIED,
    "InvalidAccessKeyId": "the access key is unknown: check the credentials",
    "SignatureDoesNotMatch": "the secret key is wrong: check the credentials",
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "InvalidToken": "the session token is not valid: renew the credentials",
    "RequestTimeTooSkewed": _CLOCK,
    "NoSuchBucket": "there is no such bucket: create it, or correct the location",
    "NoSuchUpload": "its upload was removed meanwhile: write the transaction again",
    "301": "the bucket is in another region: set fs.s3a.endpoint.region or AWS_REGION",
    "PermanentRedirect": "the bucket is in another region: set fs.s3a.endpoint.region or AWS_REGION",
    "SlowDown": _BUSY,
    "ServiceUnavailable": _BUSY,
    "503": _BUSY,
    "QuotaExceeded": "the quota is used up: free some space, or raise it",
}


class NameContended(PathExists):
    """Another request for the same name is under way: whether the name is taken is not known yet."""


class UploadMissing(StreamingIOFailure):
    """The upload was completed or aborted."""


class S3Client:
    """One bucket. Methods raise StreamingIOFailure (PathNotFound, PathExists) and are safe from several threads."""

    def __init__(self, bucket: str, options: Callable[[], S3Options]) -> None:
        """
        Args:
            bucket: Its name.
            options: Called at the first use.
        """
        self.bucket = bucket
        self._options = options
        self._lock = threading.Lock()
        self._connected: tuple[int, Any] | None = None
        self._loaded: S3Options | None = None

    @property
    def options(self) -> S3Options:
        loaded = self._loaded
        if loaded is None:
            loaded = self._loaded = self._options()
        return loaded

    def call(self, action: str, path: str, function: Callable[[Any], T]) -> T:
        """The result of one call, which `action` and `path` name in an error."""
        client = self._client()
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            return function(client)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _OUTDATED:
                self._loaded = self._connected = (
                    None  # in this order: a client is made with the options that are loaded
                )
            raise s3_failure(action, self.uri(path), error.response) from error
        except NoCredentialsError as error:
            raise StreamingIOFailure(f"cannot {action} {self.uri(path)!r}: {_NO_CREDENTIALS}") from error
        except BotoCoreError as error:
            raise StreamingIOFailure(
                f"cannot {action} {self.uri(path)!r}: {error}. Check that the service can be reached; a request whose "
                "answer was lost may have taken effect"
            ) from error

    def uri(self, path: str) -> str:
        return f"s3a://{self.bucket}{path}"

    def get(self, action: str, path: str, key: str, **more: str) -> tuple[Any, bytes]:
        """The answer and the content of GetObject. One that arrives in part is requested again."""
        from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError

        def get(s3: Any) -> tuple[Any, bytes]:
            attempt = 1
            while True:
                answer = s3.get_object(Bucket=self.bucket, Key=key, **more)
                try:
                    with contextlib.closing(answer["Body"]) as body:  # its own `with` gives the stream below it
                        return answer, body.read()
                except (
                    IncompleteReadError,
                    ReadTimeoutError,
                    ResponseStreamingError,
                ):  # botocore does not repeat those
                    if attempt == self.options.attempts:
                        raise
                    attempt += 1

        return self.call(action, path, get)

    def put_new(
        self,
        action: str,
        path: str,
        key: str,
        data: bytes | bytearray,
        *,
        token: str | None = None,
        content_type: str = "",
    ) -> None:
        """Create an object in one request. Raises PathExists, unless the object there has this token."""
        token = token or uuid.uuid4().hex
        more = {"ContentType": content_type} if content_type else {}

        def put(client: Any) -> None:
            client.put_object(Bucket=self.bucket, Key=key, Body=data, IfNoneMatch="*", Metadata={TOKEN: token}, **more)

        self.take_name(action, path, key, token, put)

    def take_name(self, action: str, path: str, key: str, token: str, request: Callable[[Any], None]) -> None:
        """Make a conditional request that creates an object with this token.

        A request whose answer was lost is repeated, and the repeated one fails because the object exists: the token
        tells whether it is ours. While another request for the same name is under way, S3 answers with a conflict.

        Raises:
            PathExists: The object is of another writer.
            UploadMissing: The upload was aborted.
        """
        for attempt in range(self.options.attempts):
            try:
                self.call(action, path, request)
            except (PathExists, UploadMissing) as failure:
                if self.has_token(path, key, token):
                    return
                if not isinstance(failure, NameContended) or attempt == self.options.attempts - 1:
                    raise
                time.sleep(_CONFLICT_PAUSE_SECONDS * 2**attempt)
            else:
                return

    def has_token(self, path: str, key: str, token: str) -> bool:
        """Whether the object there is the one that was created with this token."""
        try:
            found = self.call("look at", path, lambda client: client.head_object(Bucket=self.bucket, Key=key))
        except PathNotFound:
            return False
        return bool(found["Metadata"].get(TOKEN) == token)

    def _client(self) -> Any:
        connected = self._connected
        if connected is None or connected[0] != os.getpid():  # connections do not survive a fork
            with self._lock:
                connected = self._connected
                if connected is None or connected[0] != os.getpid():
                    connected = self._connected = (os.getpid(), self._connect())
        return connected[1]

    def _connect(self) -> Any:
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
        except ImportError as error:
            raise UnsupportedFeature(
                f"s3a://{self.bucket} is on S3: install its client (pip install 'hive-ingest[s3]')"
            ) from error
        options = self.options
        config: dict[str, Any] = {
            "retries": {"mode": "standard", "total_max_attempts": options.attempts},
            "connect_timeout": min(_CONNECT_SECONDS, options.timeout_seconds),
            "read_timeout": options.timeout_seconds,
            "max_pool_connections": _CONNECTIONS,
        }
        if options.path_style is not None or options.endpoint:
            config["s3"] = {"addressing_style": "virtual" if options.path_style is False else "path"}
        if options.endpoint:
            # Stores other than AWS's often lack the additional checksums that boto3 sends by default.
            config |= dict.fromkeys(("request_checksum_calculation", "response_checksum_validation"), "when_required")
        try:
            session = boto3.session.Session(
                aws_access_key_id=options.access_key,
                aws_secret_access_key=options.secret_key,
                aws_session_token=options.session_token,
                region_name=options.region,
                profile_name=options.profile,
            )
            if options.role_arn:
                session = _with_role(session, options.role_arn)
            return session.client("s3", endpoint_url=options.endpoint, config=Config(**config))
        except (BotoCoreError, ValueError) as error:
            raise ConfigurationError(f"s3a://{self.bucket} cannot be opened: {error}") from error

    def __getstate__(self) -> Any:
        raise TypeError("a client of S3 belongs to its process: pass the location's URI on")


def _with_role(session: Any, role_arn: str) -> Any:
    """A session with the credentials of a role, which are renewed before they expire."""
    import boto3
    import botocore.session
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    fetcher = AssumeRoleCredentialFetcher(
        client_creator=session._session.create_client,
        source_credentials=session.get_credentials(),
        role_arn=role_arn,
        extra_args={"RoleSessionName": "hive-ingest"},
    )
    assumed = botocore.session.get_session()
    assumed._credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    if session.region_name:
        assumed.set_config_variable("region", session.region_name)
    return boto3.session.Session(botocore_session=assumed)


def s3_failure(action: str, uri: str, response: Any) -> StreamingIOFailure:
    """The error to raise `from` one that the service answered."""
    error = response.get("Error", {})
    code, text = str(error.get("Code", "")), str(error.get("Message", ""))
    if code in _NOT_FOUND:
        return PathNotFound(f"cannot {action} {uri!r}: no such file or folder: it is missing, or the location is wrong")
    if code in _EXISTS:
        return PathExists(f"cannot {action} {uri!r}: it exists already and is never replaced")
    if code in _CONFLICT:
        return NameContended(
            f"cannot {action} {uri!r}: another request for the same name is under way ({code}: {text})"
        )
    kind = UploadMissing if code in _NO_UPLOAD else StreamingIOFailure
    remedy = _REMEDIES.get(code)
    return kind(
        f"cannot {action} {uri!r}: {remedy} ({code}: {text})" if remedy else f"cannot {action} {uri!r}: {code}: {text}"
    )
