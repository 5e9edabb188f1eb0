"""How a bucket is reached: from `fs.s3a.*` of Hadoop's `core-site.xml`, as Hive reads them.

What is not set there is left to boto3: its environment variables (`AWS_ENDPOINT_URL_S3`, `AWS_REGION`, `AWS_PROFILE`,
`AWS_ACCESS_KEY_ID`, …), its files in `~/.aws`, and the role of the machine or pod.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_ingest.errors import ConfigurationError

_PREFIX: Final = "fs.s3a."
_DEFAULT_PART_BYTES: Final = 8 << 20


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
        part_bytes: Size of the parts in which files are uploaded.
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

    @classmethod
    def of_bucket(cls, bucket: str) -> S3Options:
        """Those of `core-site.xml` in `HADOOP_CONF_DIR` (or `HADOOP_HOME/etc/hadoop`), if there is one.

        `fs.s3a.bucket.BUCKET.option` takes precedence over `fs.s3a.option`.

        Raises:
            ConfigurationError: The file cannot be read.
        """
        return cls.of_properties(_core_site(), bucket)

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
        )


def _as_url(endpoint: str | None, with_tls: str | None) -> str | None:
    """Hadoop takes an endpoint without a scheme, boto3 does not."""
    if endpoint is None or "://" in endpoint:
        return endpoint
    return f"{'http' if (with_tls or '').lower() == 'false' else 'https'}://{endpoint}"


def _core_site() -> dict[str, str]:
    folder = os.environ.get("HADOOP_CONF_DIR")
    if not folder and (home := os.environ.get("HADOOP_HOME")):
        folder = f"{home}/etc/hadoop"
    if not folder or not (file := Path(folder) / "core-site.xml").exists():
        return {}
    try:
        root = ET.parse(file).getroot()
    except (OSError, ET.ParseError) as error:
        raise ConfigurationError(f"{str(file)!r} cannot be read: {error}") from error
    found = ((each.findtext("name"), each.findtext("value")) for each in root.iter("property"))
    return {name.strip(): value or "" for name, value in found if name is not None}
