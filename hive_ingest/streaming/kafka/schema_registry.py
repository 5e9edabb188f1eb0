"""Schemas from a registry with Confluent's interface (Confluent, Karapace, Apicurio's `ccompat`).

A reader needs only two GET requests, and the schema of an id never changes, so the standard library is enough:
Confluent's own client brings a second Kafka client, librdkafka, and an HTTP library.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, Final

from hive_ingest.errors import ConfigurationError, SchemaRegistryUnavailable
from hive_ingest.record_writer import BadValue
from hive_ingest.streaming.kafka.secrets import is_reference, read_secret

#: How long an id that the registry does not know is not looked up again.
UNKNOWN_SECONDS: Final = 30.0
#: "Subject not found", "Version not found", "Schema not found": the registry's answers, not those of another server.
_NOT_FOUND: Final = (40401, 40402, 40403)
_MAX_ANSWER_BYTES: Final = 16 << 20
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"


class SchemaRegistry:
    """A schema registry, whose schemas are kept once they are known. Several record writers may share it.

    Args:
        url: The base URL, or those of several servers, which are asked in turn until one answers.
        username: For HTTP basic authentication; needs `password`.
        password: The password, or `env:NAME` or `file:/path`, from which it is read at each request.
        token: A bearer token, in the same forms.
        ca_file: Certificates to trust, in PEM format, instead of the system's.
        timeout_seconds: How long one request may take.
        clock: For tests.

    Raises:
        ConfigurationError: An option is not valid.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
        ca_file: str | None = None,
        timeout_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._urls = [_checked_url(each) for each in ([url] if isinstance(url, str) else url)]
        if not self._urls:
            raise ConfigurationError("url=[] is empty: give the URL of a schema registry")
        if (username is None) != (password is None):
            raise ConfigurationError("a schema registry needs both username and password, or neither: give both")
        if token is not None and username is not None:
            raise ConfigurationError("a schema registry takes a token or a username, not both: give one of them")
        self._username = username
        self._password = password
        self._token = token
        self._timeout_seconds = timeout_seconds
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=_context(ca_file)), _NoRedirect()
        )
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[int, Sequence[str]] = {}
        #: By id: when it may be asked for again, and what is wrong with it.
        self._unknown: dict[int, tuple[float, BadValue]] = {}

    def avro_schema(self, schema_id: int) -> Sequence[str]:
        """The Avro schema of an id as JSON, after the schemas that it refers to.

        Raises:
            BadValue: The registry does not know the id, or its schema is not Avro.
            ConfigurationError: The registry refused the credentials.
            SchemaRegistryUnavailable: No server could be reached, or none gave a valid answer.
        """
        with self._lock:
            if (known := self._known.get(schema_id)) is not None:
                return known
            until, why = self._unknown.get(schema_id, (0.0, None))
            if why is not None and self._clock() < until:
                raise BadValue(why.why)
            try:
                self._known[schema_id] = self._with_references(f"schemas/ids/{schema_id}", f"schema id {schema_id}")
            except BadValue as bad:
                self._unknown[schema_id] = (self._clock() + UNKNOWN_SECONDS, bad)
                raise
            return self._known[schema_id]

    def check(self) -> None:
        """Find out whether a registry answers, by looking up an id that need not exist.

        Raises:
            ConfigurationError: The registry refused the credentials.
            SchemaRegistryUnavailable: No server could be reached, or none is a schema registry.
        """
        try:
            self._get("schemas/ids/1", "schema id 1")
        except BadValue:
            pass  # the registry has answered
        except _Forbidden:
            pass  # this user may read other schemas

    def _with_references(self, path: str, what: str) -> tuple[str, ...]:
        """The schemas as JSON in the order in which they must be parsed, each once."""
        answer = self._get(path, what)
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise BadValue(f"{what} is {kind}, not Avro")
        texts: dict[str, None] = {}
        for reference in answer.get("references") or ():
            subject, version = reference["subject"], reference["version"]
            quoted = urllib.parse.quote(subject, safe="")
            referred = self._with_references(
                f"subjects/{quoted}/versions/{version}", f"version {version} of {subject!r}, to which {what} refers,"
            )
            texts |= dict.fromkeys(referred)
        return (*texts, answer["schema"])

    def _get(self, path: str, what: str) -> dict[str, Any]:
        failures: list[str] = []
        for url in self._urls:
            try:
                return self._get_from(f"{url}/{path}", what)
            except (OSError, http.client.HTTPException, ValueError) as error:
                failures.append(f"{url}: {_reason(error)}")
        raise SchemaRegistryUnavailable(
            f"{what} could not be looked up in the schema registry: {'; '.join(failures)}. Check the URL, and that the "
            "registry can be reached"
        )

    def _get_from(self, url: str, what: str) -> dict[str, Any]:
        request = urllib.request.Request(url, headers={"Accept": _ACCEPT, **self._authorization()})
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as response:
                answer = json.loads(response.read(_MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (401, 403):
                    raise (_Forbidden if error.code == 403 else ConfigurationError)(
                        f"the schema registry at {url} refused the credentials (HTTP {error.code}): check username and "
                        "password, or token"
                    ) from error
                if error.code == 404 and _error_code(error) in _NOT_FOUND:
                    raise BadValue(f"{what} is unknown in the schema registry") from error
                raise
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise ValueError("the answer is not that of a schema registry")
        return answer

    def _authorization(self) -> dict[str, str]:
        if self._token is not None:
            return {"Authorization": f"Bearer {read_secret('token', self._token)}"}
        if self._username is None or self._password is None:
            return {}
        pair = f"{self._username}:{read_secret('password', self._password)}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}

    def __repr__(self) -> str:
        secrets = {"password": self._password, "token": self._token}
        shown = {name: text if is_reference(text) else "***" for name, text in secrets.items() if text is not None}
        options = "".join(
            f", {name}={value!r}" for name, value in ({"username": self._username} | shown).items() if value
        )
        return f"SchemaRegistry({self._urls!r}{options})"


class _Forbidden(ConfigurationError):
    """The user is known, and may not read this schema."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would send the credentials to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _checked_url(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"{_without_user(url)!r} is not the URL of a schema registry: give http(s)://host:port"
        )
    if "@" in parts.netloc:
        raise ConfigurationError(
            f"the URL of the schema registry at {parts.hostname} contains a username: pass username= and password="
        )
    return url.rstrip("/")


def _without_user(url: str) -> str:
    return url.rpartition("@")[2]


def _context(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ConfigurationError(f"ca_file={ca_file!r} cannot be used: {error}") from error


def _error_code(error: urllib.error.HTTPError) -> object:
    try:
        answer = json.loads(error.read(_MAX_ANSWER_BYTES))
    except ValueError:
        return None
    return answer.get("error_code") if isinstance(answer, dict) else None


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    reason = getattr(error, "reason", None)
    return str(reason or error) or type(error).__name__
