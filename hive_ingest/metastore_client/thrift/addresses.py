"""`thrift://host:port,thrift://host2:port2`, as in `hive.metastore.uris`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hive_ingest.errors import ConfigurationError

SCHEME = "thrift"
DEFAULT_PORT = 9083
_ADDRESS = re.compile(r"thrift://(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/@\[\]]+)(?::(?P<port>\d{1,5}))?/?")


@dataclass(frozen=True, slots=True)
class Address:
    """One server. `host` is a name or an IP address, an IPv6 one without its brackets."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEME}://{host}:{self.port}"


def parse_addresses(uri: str) -> tuple[Address, ...]:
    """Parse a URI to its servers, each once, in order. Raises ConfigurationError."""
    return tuple(dict.fromkeys(_parse(part.strip()) for part in uri.split(",")))


def _parse(text: str) -> Address:
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"] or DEFAULT_PORT) not in range(1, 65536):
        # A mistyped URI may hold a password, so only its scheme is shown.
        shown = text.partition("://")[0] if "://" in text else "this text"
        raise ConfigurationError(
            f"{shown!r} is not a metastore URI: write 'thrift://host:9083', several of them separated by commas; "
            "user and password are options"
        )
    return Address(found["host"].strip("[]"), int(found["port"] or DEFAULT_PORT))
