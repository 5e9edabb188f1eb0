"""Where the metastore is and where its warehouse is: addresses parsed, checked, and shown without passwords."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client.locations import normal_location

SQLITE = "sqlite"
POSTGRESQL = "postgresql+psycopg"
_POSSIBLE = (
    "'sqlite:///relative.db', 'sqlite:////absolute/path.db', 'postgresql+psycopg://user:password@host:5432/database' "
    "or, for a real metastore, 'thrift://host:9083'"
)
_HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class MetastoreUri:
    """A parsed address. `str()` and `repr()` leave every password out."""

    url: URL = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False, default=())

    @property
    def is_sqlite(self) -> bool:
        return self.url.drivername == SQLITE

    @property
    def path(self) -> Path:
        """The file of a SQLite metastore."""
        return Path(self.url.database or "")

    def __str__(self) -> str:
        url = self.url
        query = {key: value for key, value in url.query.items() if not _is_secret(key)}
        # A new URL: URL.set(password=None) would keep the password.
        shown = URL.create(url.drivername, url.username, None, url.host, url.port, url.database, query)
        return shown.render_as_string(hide_password=False)

    def __repr__(self) -> str:
        return f"MetastoreUri({str(self)!r})"

    def redact(self, text: str) -> str:
        """`text` with every password in it replaced by `***`."""
        for secret in self.secrets:
            text = text.replace(secret, _HIDDEN)
        return text


def parse_uri(uri: str) -> MetastoreUri:
    """Raises ConfigurationError, which says what is possible and never repeats the address itself."""
    url = _parse(uri)
    # Raised outside `except`: SQLAlchemy's own error quotes the address with its password.
    if url is None or url.drivername not in (SQLITE, POSTGRESQL):
        wrong = f"the scheme {uri.partition(':')[0]!r} is unknown" if "://" in uri else "it has no scheme"
        raise ConfigurationError(f"the address is not a metastore URI, {wrong}: write {_POSSIBLE}")
    return _sqlite(url) if url.drivername == SQLITE else MetastoreUri(url, _secrets(url))


def _parse(uri: str) -> URL | None:
    try:
        return make_url(uri)
    except (ArgumentError, ValueError):
        return None


def _sqlite(url: URL) -> MetastoreUri:
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise ConfigurationError(
            "a SQLite metastore is one file that several connections open: write 'sqlite:///path.db'"
        )
    if url.host or url.username or url.query:
        raise ConfigurationError("a SQLite metastore has a path and nothing else: write 'sqlite:///path.db'")
    # Absolute, so that a clone after os.chdir still means the same file.
    return MetastoreUri(url.set(database=str(Path(url.database).expanduser().absolute())))


def _is_secret(key: str) -> bool:
    return "password" in key.lower() or "secret" in key.lower()


def _secrets(url: URL) -> tuple[str, ...]:
    plain = [str(url.password)] if url.password else []
    plain += [value for value in _texts(url.query) if value]
    # Drivers quote an address as it was given: decoded, or percent-encoded in one of two ways.
    forms = {form for text in plain for form in (text, quote(text, safe=""), quote(text), quote_plus(text))}
    return tuple(sorted(forms, key=len, reverse=True))


def _texts(query: Mapping[str, str | tuple[str, ...]]) -> list[str]:
    found: list[str] = []
    for key, value in query.items():
        if _is_secret(key):
            found += [value] if isinstance(value, str) else list(value)
    return found


# -- locations ---------------------------------------------------------------------------------------


def check_warehouse(warehouse: str) -> str:
    """The warehouse's location. Raises ConfigurationError: it is empty."""
    if not warehouse:
        raise ConfigurationError("empty warehouse: give the folder in which databases and tables are stored")
    return normal_location(warehouse)
