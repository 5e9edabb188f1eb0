"""The Maven repository that services and libraries come from: its address, and downloads from it."""

from __future__ import annotations

import base64
import http.client
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

# Where Ivy itself goes when nothing is configured. Ivy is fetched from there, so it has to be said here too.
CENTRAL = "https://repo1.maven.org/maven2"

_ATTEMPTS = 5
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository in Maven's layout; `authorization` is the HTTP header that it requires, if any."""

    url: str
    authorization: str | None = None

    def __repr__(self) -> str:
        return f"Repository({self.url!r})"

    def request(self, path: str, *, method: str = "GET") -> tuple[int, bytes]:
        """Status and body of one file, tried again when the network or the server fails.

        Raises `OSError` when the last attempt fails too.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._request_once(path, method)
            except urllib.error.HTTPError as error:
                if error.code < 500 or attempt == _ATTEMPTS:
                    return error.code, b""
            except (OSError, http.client.HTTPException) as error:
                if attempt == _ATTEMPTS:
                    raise OSError(f"{self.url}/{path}: {error}") from error
            time.sleep(2 ** (attempt - 1))
        raise AssertionError("the last attempt returns or raises")

    def _request_once(self, path: str, method: str) -> tuple[int, bytes]:
        request = urllib.request.Request(f"{self.url}/{path}", method=method)
        if self.authorization:
            # Not sent on to wherever the repository redirects to.
            request.add_unredirected_header("Authorization", self.authorization)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            return answer.status, answer.read()


def repository() -> Repository:
    """`HIVE_INGEST_MAVEN_URL`, else the mirror of central in the user's Maven settings, else Ivy's default."""
    url = os.environ.get("HIVE_INGEST_MAVEN_URL")
    if url:
        return _repository(url)
    return _mirror(Path.home() / ".m2" / "settings.xml") or Repository(CENTRAL)


def _repository(url: str, user: str | None = None, password: str | None = None) -> Repository:
    parts = urllib.parse.urlsplit(url.rstrip("/"))
    if parts.username:
        user, password = urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or "")
    bare = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if not user:
        return Repository(bare)
    token = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
    return Repository(bare, f"Basic {token}")


def _mirror(settings: Path) -> Repository | None:
    if not settings.is_file():
        return None
    root = ET.parse(settings).getroot()
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        if _mirrors_central(_text(mirror, "mirrorOf")):
            server = _server(root, _text(mirror, "id"))
            return _repository(_text(mirror, "url"), *server)
    return None


def _server(root: ET.Element, mirror_id: str) -> tuple[str, str]:
    for server in root.iterfind("{*}servers/{*}server"):
        if _text(server, "id") == mirror_id:
            return _text(server, "username"), _text(server, "password")
    return "", ""


def _mirrors_central(mirror_of: str) -> bool:
    names = [name.strip() for name in mirror_of.split(",")]
    return "!central" not in names and bool({"central", "*", "external:*"} & set(names))


def _text(element: ET.Element, tag: str) -> str:
    text = (element.findtext(f"{{*}}{tag}") or "").strip()
    return re.sub(r"\$\{env\.(\w+)\}", lambda match: os.environ.get(match[1], ""), text)
