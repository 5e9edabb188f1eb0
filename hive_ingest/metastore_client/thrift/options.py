"""Options of a connection to a real metastore, and where they come from."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hive_ingest.config import hive_site_properties, parse_seconds
from hive_ingest.errors import ConfigurationError
from hive_ingest.identity import this_user

ENVIRONMENT_PREFIX = "HIVE_INGEST_METASTORE_"
AUTHENTICATIONS = ("none", "plain", "kerberos")
URI_SELECTIONS = ("random", "sequential")


def _option(default: Any, about: str, *hive_keys: str, secret: bool = False) -> Any:
    return dataclasses.field(default=default, repr=not secret, metadata={"about": about, "hive_keys": hive_keys})


@dataclass(frozen=True, slots=True, kw_only=True)
class ThriftOptions:
    """What `connect_metastore` accepts beside the addresses of a real metastore.

    A value comes from the first of: the argument, the environment (`HIVE_INGEST_METASTORE_<NAME>`), `hive-site.xml` in
    `HIVE_CONF_DIR` (under Hive 3's names or Hive 4's), the default.
    """

    connect_timeout_seconds: float = _option(10.0, "how long one server may take to accept a connection")
    call_timeout_seconds: float = _option(
        60.0, "how long one answer may take", "metastore.client.socket.timeout", "hive.metastore.client.socket.timeout"
    )
    retry_seconds: float = _option(30.0, "how long connecting, and calls that are safe to repeat, are tried again")
    uri_selection: str = _option(
        "random", "which server is tried first", "metastore.thrift.uri.selection", "hive.metastore.uri.selection"
    )
    authentication: str = _option("none", "none, plain (user and password) or kerberos")
    user: str = _option(
        "", "who the server shall take us for; default: HADOOP_USER_NAME, else the user of this process"
    )
    password: str = _option("", "of `user`, for plain", secret=True)
    kerberos_principal: str = _option(
        "hive/_HOST", "of the server", "metastore.kerberos.principal", "hive.metastore.kerberos.principal"
    )
    use_ssl: bool = _option(False, "whether the connection is encrypted", "metastore.use.SSL", "hive.metastore.use.SSL")
    ssl_ca_file: str = _option("", "PEM file of the authorities that are trusted; default: the system's")

    def __post_init__(self) -> None:
        for option in dataclasses.fields(self):
            object.__setattr__(self, option.name, _checked(option, getattr(self, option.name)))
        _one_of("authentication", self.authentication, AUTHENTICATIONS)
        _one_of("uri_selection", self.uri_selection, URI_SELECTIONS)
        if self.authentication == "plain" and not (self.user and self.password):
            raise ConfigurationError("authentication='plain' needs user and password: give both")

    @classmethod
    def load(cls, arguments: Mapping[str, Any], *, environ: Mapping[str, str] | None = None) -> Self:
        """Options from all sources. Raises ConfigurationError for an unknown name or a value that cannot be meant."""
        environ = os.environ if environ is None else environ
        names = [option.name for option in dataclasses.fields(cls)]
        unknown = sorted(set(arguments) - set(names))
        if unknown:
            raise ConfigurationError(f"unknown option {unknown[0]!r}: a Thrift metastore knows {', '.join(names)}")
        found = _from_hive_site(hive_site_properties(environ))
        keys = {f"{ENVIRONMENT_PREFIX}{name.upper()}": name for name in names}
        found |= {name: environ[key] for key, name in keys.items() if key in environ}
        return cls(**{**found, **arguments})

    @property
    def effective_user(self) -> str:
        """`user`, or whom Hadoop's own clients would take."""
        return self.user or os.environ.get("HADOOP_USER_NAME") or this_user()


def uris_of_hive_site(environ: Mapping[str, str] | None = None) -> str:
    """`hive.metastore.uris` of `hive-site.xml`. Raises ConfigurationError when it is not there."""
    properties = hive_site_properties(os.environ if environ is None else environ)
    uris = properties.get("metastore.thrift.uris") or properties.get("hive.metastore.uris")
    if not uris:
        raise ConfigurationError(
            "'thrift://' alone stands for hive.metastore.uris of hive-site.xml, which is not there: "
            "set HIVE_CONF_DIR to the folder that holds the file, or write 'thrift://host:9083'"
        )
    return uris


def _from_hive_site(properties: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option in dataclasses.fields(ThriftOptions):
        values = [properties[key] for key in option.metadata["hive_keys"] if key in properties]
        if values:
            found[option.name] = values[0]
    if "call_timeout_seconds" in found:
        found["call_timeout_seconds"] = parse_seconds(found["call_timeout_seconds"])
    if "uri_selection" in found:
        found["uri_selection"] = found["uri_selection"].lower()
    if _is_true(properties, "metastore.sasl.enabled", "hive.metastore.sasl.enabled"):
        found["authentication"] = "kerberos"
    return found


def _is_true(properties: Mapping[str, str], *keys: str) -> bool:
    return any(properties.get(key, "").lower() == "true" for key in keys)


def _checked(option: dataclasses.Field[Any], value: Any) -> Any:
    kind: Any = type(option.default)
    try:
        if kind is bool:
            return value if isinstance(value, bool) else {"true": True, "false": False}[str(value).strip().lower()]
        if kind is float:
            return _positive(value)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{option.name}={value!r}: {option.metadata['about']}") from error
    if not isinstance(value, str):
        raise ConfigurationError(f"{option.name}={value!r}: {option.metadata['about']}; give a text")
    return value


def _positive(value: Any) -> float:
    seconds = float(value)
    if value is True or seconds <= 0:
        raise ValueError(value)
    return seconds


def _one_of(name: str, value: str, possible: tuple[str, ...]) -> None:
    if value not in possible:
        raise ConfigurationError(f"{name}={value!r}: give one of {', '.join(possible)}")
