"""Hadoop's configuration files."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path

from hive_ingest.errors import ConfigurationError


def core_site() -> dict[str, str]:
    """The properties of `core-site.xml` in `HADOOP_CONF_DIR` (or `HADOOP_HOME/etc/hadoop`), if there is one.

    Raises:
        ConfigurationError: The file cannot be read.
    """
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
