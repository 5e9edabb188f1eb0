"""Table properties that a request overrides for one compaction.

Hive: `ALTER TABLE … COMPACT 'major' WITH OVERWRITE TBLPROPERTIES ('tblprops.orc.compress'='ZLIB')`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hive_ingest.delta import compression_of
from hive_ingest.model import Table
from hive_ingest.orc import arrow_compression

_PREFIX = "tblprops."


def with_overrides(table: Table, properties: Mapping[str, str]) -> Table:
    """The table with the properties that override its own for one compaction: those that begin with `tblprops.`.

    Others, such as Hive's `compactor.…`, configure Hive's own jobs and have no effect here.
    """
    overrides = {name.removeprefix(_PREFIX): value for name, value in properties.items() if name.startswith(_PREFIX)}
    return replace(table, properties={**table.properties, **overrides}) if overrides else table


def check_overrides(table: Table, properties: Mapping[str, str]) -> None:
    """Raises ConfigurationError or UnsupportedFeature if no file can be written with the overrides."""
    arrow_compression(compression_of(with_overrides(table, properties)))
