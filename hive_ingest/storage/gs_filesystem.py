"""Google Cloud Storage through pyarrow, as `fs.gs.*` of Hadoop's `core-site.xml` says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from hive_ingest.errors import ConfigurationError, UnsupportedFeature

_ENDPOINT: Final = "fs.gs.storage.root.url"
_AUTH_TYPE: Final = "fs.gs.auth.type"
_ANONYMOUS: Final = "UNAUTHENTICATED"
#: By default Google's client repeats requests for 15 minutes, those for credentials that nobody has too.
_RETRY_TIME: Final = timedelta(seconds=60)


def gs_filesystem(properties: Mapping[str, str]) -> pafs.FileSystem:
    """The file system of all buckets. Opening it makes no request.

    Args:
        properties: Hadoop's, as Google's connector names them. `fs.gs.storage.root.url` is the endpoint, and
            `fs.gs.auth.type` UNAUTHENTICATED takes no credentials; otherwise Google's client looks for them
            (`GOOGLE_APPLICATION_CREDENTIALS`, those of gcloud, the service account of the machine).

    Raises:
        ConfigurationError: The endpoint is not a URL.
        UnsupportedFeature: This pyarrow was built without the client.
    """
    endpoint = (properties.get(_ENDPOINT) or "").strip()
    url = urlsplit(endpoint or "https://")
    if endpoint and (url.scheme not in ("http", "https") or not url.netloc):
        raise ConfigurationError(f"{_ENDPOINT} is {endpoint!r}: give a URL such as 'https://storage.googleapis.com/'")
    try:
        return pafs.GcsFileSystem(
            anonymous=(properties.get(_AUTH_TYPE) or "").strip().upper() == _ANONYMOUS,
            scheme=url.scheme,
            endpoint_override=url.netloc or None,
            retry_time_limit=_RETRY_TIME,
        )
    except ImportError as error:
        raise UnsupportedFeature(
            "this pyarrow cannot read Google Cloud Storage: install the one of PyPI (pip install pyarrow)"
        ) from error
