"""Access tokens for OAUTHBEARER: from an option, or from an authorization server (RFC 6749, 4.4)."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from hive_ingest.errors import ConfigurationError, StreamingConnectionError
from hive_ingest.streaming.kafka.secrets import read_secret

_TIMEOUT_SECONDS = 10
#: A token is requested again after this share of its lifetime.
_REFRESH_SHARE = 0.8


def token_provider(options: Mapping[str, Any]) -> AbstractTokenProvider:
    """The provider that kafka-python asks for a token whenever it authenticates a connection.

    Raises:
        ConfigurationError: A secret cannot be read.
    """
    token = options.get("sasl_oauth_token")
    if token:
        read_secret("sasl_oauth_token", token)  # an error now is clearer than one on the client's own thread
        return _NamedToken(token)
    return _ClientCredentials(options)


class _NamedToken(AbstractTokenProvider):  # type: ignore[misc]
    """The token of an option. A file is read at each authentication, so the token can be renewed in it."""

    def __init__(self, reference: str) -> None:
        super().__init__()
        self._reference = reference

    def token(self) -> str:
        return read_secret("sasl_oauth_token", self._reference)


class _ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]
    """Requests a token, and keeps it for most of its lifetime."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._url: str = options["sasl_oauth_token_endpoint_url"]
        if urllib.parse.urlsplit(self._url).scheme not in ("https", "http"):
            raise ConfigurationError(f"sasl_oauth_token_endpoint_url={self._url!r}: give an https:// URL")
        self._client_id: str = options["sasl_oauth_client_id"]
        self._client_secret: str = options["sasl_oauth_client_secret"]
        self._scope: str | None = options.get("sasl_oauth_scope")
        self._lock = threading.Lock()
        self._token = ""
        self._refresh_at = 0.0
        read_secret("sasl_oauth_client_secret", self._client_secret)

    def token(self) -> str:
        with self._lock:
            if not self._token or time.monotonic() >= self._refresh_at:
                self._request()
            return self._token

    def _request(self) -> None:
        requested_at = time.monotonic()
        try:
            with urllib.request.urlopen(self._new_request(), timeout=_TIMEOUT_SECONDS) as response:
                answer = json.load(response)
            self._token = str(answer["access_token"])
            self._refresh_at = requested_at + _REFRESH_SHARE * float(answer.get("expires_in", 0))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StreamingConnectionError(f"no access token from {self._url}: {_reason(error)}") from error

    def _new_request(self) -> urllib.request.Request:
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        secret = read_secret("sasl_oauth_client_secret", self._client_secret)
        # RFC 6749, 2.3.1: both parts are form-encoded first.
        user = f"{urllib.parse.quote_plus(self._client_id)}:{urllib.parse.quote_plus(secret)}"
        request = urllib.request.Request(self._url, data=urllib.parse.urlencode(form).encode())
        # Not sent to a server that this one redirects to.
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(user.encode()).decode()}")
        return request


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code} {error.reason}"
    if isinstance(error, KeyError):
        return "the answer has no access_token"
    return f"{type(error).__name__}: {error}"
