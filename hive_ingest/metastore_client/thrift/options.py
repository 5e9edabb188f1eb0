"""Options of a connection to a real metastore, and their sources."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hive_ingest.config import (
    check_options,
    explained,
    from_environment,
    from_hive_site,
    hive_site_properties,
    option,
    options_from,
    parse_seconds,
)
from hive_ingest.errors import ConfigurationError
from hive_ingest.identity import hadoop_user, this_user

ENVIRONMENT_PREFIX = "HIVE_INGEST_METASTORE_"
AUTHENTICATIONS = ("none", "plain", "kerberos")
URI_SELECTIONS = ("random", "sequential")


def _seconds(default: float, about: str, *hive_keys: str) -> Any:
    return option(default, about, above=0, hive_key=hive_keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThriftOptions:
    """Options that `connect_metastore` accepts for a real metastore.

    A value comes from the first of: the argument, the environment (`HIVE_INGEST_METASTORE_<NAME>`), `hive-site.xml` in
    `HIVE_CONF_DIR` (under Hive 3's names or Hive 4's), the default.
    """

    connect_timeout_seconds: float = _seconds(10.0, "how long one server may take to accept a connection")
    call_timeout_seconds: float = _seconds(
        60.0, "how long one answer may take", "metastore.client.socket.timeout", "hive.metastore.client.socket.timeout"
    )
    retry_seconds: float = _seconds(30.0, "how long connecting, and calls that are safe to repeat, are tried again")
    ddl_lock_wait_seconds: float = option(
        60.0, "how long DROP and ALTER wait for those who read or write the object", at_least=0
    )
    uri_selection: str = option(
        "random",
        "which server is tried first",
        choices=URI_SELECTIONS,
        hive_key=("metastore.thrift.uri.selection", "hive.metastore.uri.selection"),
    )
    authentication: str = option("none", "none, plain (user and password) or kerberos", choices=AUTHENTICATIONS)
    user: str = option(
        "", "as whom the server shall see us; default: HADOOP_USER_NAME, SPARK_USER, else the user of this process"
    )
    password: str = option("", "of `user`, for plain", secret=True)
    kerberos_principal: str = option(
        "hive/_HOST", "of the server", hive_key=("metastore.kerberos.principal", "hive.metastore.kerberos.principal")
    )
    use_ssl: bool = option(
        False, "whether the connection is encrypted", hive_key=("metastore.use.SSL", "hive.metastore.use.SSL")
    )
    ssl_ca_file: str = option("", "PEM file of the authorities that are trusted; default: the system's")

    def __post_init__(self) -> None:
        check_options(self)
        if self.authentication == "plain" and not (self.user and self.password):
            raise ConfigurationError("authentication='plain' needs user and password: give both")

    @classmethod
    def load(cls, arguments: Mapping[str, Any], *, environ: Mapping[str, str] | None = None) -> Self:
        """Load options from all sources. Raises ConfigurationError for an unknown name or an invalid value."""
        environ = os.environ if environ is None else environ
        return options_from(cls, *cls._sources(environ), ("the arguments, for a thrift:// URI", arguments))

    @classmethod
    def explain(cls, *, environ: Mapping[str, str] | None = None) -> dict[str, tuple[Any, str]]:
        """The value of each option and its source, "default" for one that is not set. Raises as `load`."""
        environ = os.environ if environ is None else environ
        return explained(cls.load({}, environ=environ), cls._sources(environ))

    @classmethod
    def _sources(cls, environ: Mapping[str, str]) -> list[tuple[str, Mapping[str, Any]]]:
        """A later one wins."""
        return [
            ("hive-site.xml", _from_hive_site(environ)),
            ("the environment", from_environment(cls, ENVIRONMENT_PREFIX, environ)),
        ]

    @property
    def effective_user(self) -> str:
        """`user`, or the user that Hadoop's own clients would use."""
        return self.user or hadoop_user() or this_user()


def uris_of_hive_site(environ: Mapping[str, str] | None = None) -> str:
    """`hive.metastore.uris` of `hive-site.xml`. Raises ConfigurationError if it is missing."""
    properties = hive_site_properties(os.environ if environ is None else environ)
    uris = properties.get("metastore.thrift.uris") or properties.get("hive.metastore.uris")
    if not uris:
        raise ConfigurationError(
            "'thrift://' alone stands for hive.metastore.uris of hive-site.xml, which is missing: "
            "set HIVE_CONF_DIR to the folder that holds the file, or write 'thrift://host:9083'"
        )
    return uris


def _from_hive_site(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = dict(from_hive_site(ThriftOptions, environ))
    if "call_timeout_seconds" in found:
        found["call_timeout_seconds"] = parse_seconds(found["call_timeout_seconds"])
    if "uri_selection" in found:
        found["uri_selection"] = found["uri_selection"].lower()
    if _is_true(hive_site_properties(environ), "metastore.sasl.enabled", "hive.metastore.sasl.enabled"):
        found["authentication"] = "kerberos"
    return found


def _is_true(properties: Mapping[str, str], *keys: str) -> bool:
    return any(properties.get(key, "").lower() == "true" for key in keys)
