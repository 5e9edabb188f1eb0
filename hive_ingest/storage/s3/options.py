"""How a bucket is reached: from `fs.s3a.*` of Hadoop's `core-site.xml`, as Hive reads them.

What is not set there is left to boto3: its environment variables (`AWS_ENDPOINT_URL_S3`, `AWS_REGION`, `AWS_PROFILE`,
`AWS_ACCESS_KEY_ID`, …), its files in `~/.aws`, and the role of the machine or pod.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from hive_ingest.errors import ConfigurationError
from hive_ingest.storage.hadoop_conf import core_site

_PREFIX: Final = "fs.s3a."
_DEFAULT_PART_BYTES: Final = 8 << 20
_LEAST_PART_BYTES: Final = 5 << 20
_DEFAULT_ATTEMPTS: Final = 5
_DEFAULT_TIMEOUT_SECONDS: Final = 30.0
_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATIONS: Final = {"": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0}


@dataclass(frozen=True, slots=True)
class S3Options:
    """Of one bucket. None leaves an option to boto3.

    Attributes:
        endpoint: URL of the service, for stores other than AWS's own.
        region: Such as `eu-central-1`.
        path_style: Whether the bucket is part of the path of a URL, not of its host name. None: as boto3 does by
            default, or true where `endpoint` is set.
        access_key, secret_key, session_token: Credentials.
        profile: A profile of `~/.aws`.
        role_arn: A role that is assumed with those credentials.
        part_bytes: Size of the parts in which files are uploaded. A file that is written holds one in memory.
        attempts: How often a request is made whose answer is lost, or says that the service is busy.
        keep_markers: Whether folders keep their markers when files are published in them, as no reader before Hadoop
            3.3.1 uses the bucket.
        timeout_seconds: How long the service may be silent until a request counts as lost.
    """

    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    role_arn: str | None = None
    part_bytes: int = _DEFAULT_PART_BYTES
    keep_markers: bool = False
    attempts: int = _DEFAULT_ATTEMPTS
    timeout_seconds: float = _DEFAULT_TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        if self.part_bytes < _LEAST_PART_BYTES:
            raise ConfigurationError(f"fs.s3a.multipart.size is {self.part_bytes}: S3 takes parts of at least 5 MiB")
        if self.attempts < 1 or self.timeout_seconds <= 0:
            raise ConfigurationError("fs.s3a.attempts.maximum and fs.s3a.connection.timeout must be greater than 0")

    @classmethod
    def of_bucket(cls, bucket: str) -> S3Options:
        """Those of `core-site.xml` in `HADOOP_CONF_DIR` (or `HADOOP_HOME/etc/hadoop`), if there is one.

        The region may also come from `AWS_REGION`. `fs.s3a.bucket.BUCKET.option` takes precedence over `fs.s3a.option`.

        Raises:
            ConfigurationError: The file cannot be read.
        """
        options = cls.of_properties(core_site(), bucket)
        # Other clients of AWS read it, and pods and functions have it; boto3 reads AWS_DEFAULT_REGION alone.
        return options if options.region else replace(options, region=os.environ.get("AWS_REGION") or None)

    @classmethod
    def of_properties(cls, properties: Mapping[str, str], bucket: str) -> S3Options:
        """Those of Hadoop's properties."""

        def get(name: str) -> str | None:
            value = properties.get(f"{_PREFIX}bucket.{bucket}.{name}", properties.get(_PREFIX + name))
            return value.strip() or None if value is not None else None

        path_style = get("path.style.access")
        return cls(
            endpoint=_as_url(get("endpoint"), get("connection.ssl.enabled")),
            region=get("endpoint.region"),
            path_style=None if path_style is None else path_style.lower() == "true",
            access_key=get("access.key"),
            secret_key=get("secret.key"),
            session_token=get("session.token"),
            role_arn=get("assumed.role.arn"),
            part_bytes=int(_scaled("multipart.size", get("multipart.size"), _SIZES, _DEFAULT_PART_BYTES)),
            keep_markers=(get("directory.marker.retention") or "").lower() == "keep",
            attempts=int(_scaled("attempts.maximum", get("attempts.maximum"), {"": 1}, _DEFAULT_ATTEMPTS)),
            timeout_seconds=_scaled(
                "connection.timeout", get("connection.timeout"), _DURATIONS, _DEFAULT_TIMEOUT_SECONDS
            ),
        )


def _scaled(name: str, text: str | None, units: Mapping[str, float], default: float) -> float:
    """A number with a unit, as Hadoop writes sizes and durations. Raises ConfigurationError."""
    if text is None:
        return default
    parsed = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if parsed is None or parsed[2] not in units:
        known = ", ".join(unit for unit in units if unit)
        raise ConfigurationError(
            f"{_PREFIX}{name} is {text!r}: give a whole number" + (f" and {known}" if known else "")
        )
    return int(parsed[1]) * units[parsed[2]]


def _as_url(endpoint: str | None, with_tls: str | None) -> str | None:
    """Hadoop takes an endpoint without a scheme, boto3 does not."""
    if endpoint is None or "://" in endpoint:
        return endpoint
    return f"{'http' if (with_tls or '').lower() == 'false' else 'https'}://{endpoint}"
