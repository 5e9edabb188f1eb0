"""What mkdocs does beside the pages in docs: README.md is the first page, and the reference comes from docstrings.

Links in the pages are those of the repository, so that they also work where it is browsed. A link to a file that is
no page leads to the repository.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


#: A function that has the name of its module, which is found first.
_PATHS = {"hive_ingest.scan": "hive_ingest.reader.scan.scan"}
#: Classes whose arguments are not for users.
_MADE_BY_FUNCTIONS = {"StreamingConnection", "Scan", "HeldSnapshot"}


class Reference(NamedTuple):
    """A page of the reference: what it is about, and the names on it; if there are none, all of the module."""

    title: str
    about: str
    module: str
    names: str


REFERENCE: Mapping[str, Reference] = {
    "hive_ingest": Reference(
        "Functions",
        "Most programs need only these.",
        "hive_ingest",
        "connect_metastore append ingest_files follow_files infer_columns read_table scan partition_sizes "
        "hold_snapshot compact purge Scan HeldSnapshot "
        "PartitionSizes PartitionSize",
    ),
    "connection": Reference(
        "Connections",
        "The Streaming V2 API, transaction by transaction.",
        "hive_ingest.connection",
        "StreamingConnection CommitInfo ConnectionStats TransactionState StreamingSettings SourceProgress "
        "JoinedTransaction SharedTransaction PreparedWrite BadRecordHandler BadRecordTable",
    ),
    "record_writer": Reference(
        "Record writers",
        "What converts records to rows. [Types](../types.md) has the values that each type accepts.",
        "hive_ingest.record_writer",
        "StrictJsonWriter StrictDelimitedInputWriter StrictRegexWriter CsvWriter ArrowWriter AvroWriter "
        "MappingWriter RecordListWriter RecordWriter RecordSchema Block Parsed BadRecord",
    ),
    "metastore_client": Reference(
        "Metastore client",
        "What `connect_metastore` returns. [Metastores](../metastores.md) has the options.",
        "hive_ingest.metastore_client",
        "MetastoreClient",
    ),
    "model": Reference(
        "Values",
        "What a metastore client takes and returns.",
        "hive_ingest.model",
        "Column Table TableName Partition LockRequest LockComponent LockResponse LockInfo "
        "TxnInfo OpenTxnsInfo CompactionInfo CompactionResponse CommitKeyValue",
    ),
    "files": Reference(
        "Files",
        "Files of records, one a line or in CSV.",
        "hive_ingest.streaming",
        "ingest_files IngestResult IngestProgress FilePosition BadRecordFile",
    ),
    "spark": Reference(
        "Spark",
        "[Spark](../spark.md) explains them.",
        "hive_ingest.streaming.spark",
        "HiveSink write_dataframe HiveDataSource SparkCompactor BatchStats",
    ),
    "kafka": Reference(
        "Kafka",
        "[Kafka](../kafka.md) explains them.",
        "hive_ingest.streaming.kafka",
        "KafkaIngest KafkaRoute KafkaOptions MessageColumns MessageWriter KafkaMessage SchemaRegistry "
        "DeadLetterTopic DeadLetterFile KafkaIngestStats KafkaRouteStats KafkaPartitionStats",
    ),
    "compaction": Reference(
        "Compaction",
        "[Compaction](../compaction.md) explains them.",
        "hive_ingest.compaction",
        "compact purge Maintenance Compactor CompactorSettings CompactionPolicy JobSettings MergeSettings "
        "CleanerSettings CompactionOutcome PurgeOutcome CompactorResult",
    ),
    "metrics": Reference(
        "Metrics",
        "[Operations](../operations.md) explains them.",
        "hive_ingest.metrics",
        "Metrics HealthLimits Health Problem MetricsServer",
    ),
    "errors": Reference("Errors", "[Errors](../errors.md) has causes and remedies.", "hive_ingest.errors", ""),
}


def reference_page(page: Reference) -> str:
    """The Markdown of a page of the reference."""
    blocks = [_directive(f"{page.module}.{name}", name) for name in page.names.split()]
    return "\n".join([f"# {page.title}\n", f"{page.about}\n", *(blocks or [_directive(page.module)])])


def _directive(path: str, name: str = "") -> str:
    """What mkdocstrings replaces by the docstrings of an object, or of a module, whose heading the page has."""
    option = ""
    if not name:
        option = "show_root_heading: false"
    elif name in _MADE_BY_FUNCTIONS:
        option = "merge_init_into_class: false"
    elif name.endswith("Writer") and name != "RecordWriter":  # their methods are those of RecordWriter
        option = "members: false"
    return f"::: {_PATHS.get(path, path)}\n" + (f"    options:\n      {option}\n" if option else "")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are not files in docs."""
    from mkdocs.structure.files import File

    readme = (_ROOT / "README.md").read_text("utf-8")
    files.append(File.generated(config, "index.md", content=readme))
    for name, page in REFERENCE.items():
        files.append(File.generated(config, f"reference/{name}.md", content=reference_page(page)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Turn links between files of the repository into links between pages."""
    if page.file.src_uri.startswith("reference/"):
        return markdown
    folder = _ROOT if page.file.src_uri == "index.md" else _ROOT / "docs"
    return _LINK.sub(lambda found: f"]({link(folder, found[1], str(config.repo_url))}{found[2] or ''})", markdown)


def link(folder: Path, target: str, repo_url: str) -> str:
    """What the link `target` in a file of `folder` is in the site."""
    path = (folder / target).resolve()
    if path == _ROOT / "README.md":
        return "index.md"
    if path.parent == _ROOT / "docs":
        return path.name
    kind = "tree" if path.is_dir() else "blob"
    return f"{repo_url}/{kind}/main/{path.relative_to(_ROOT)}"
