"""The tables of Hive's `TestStreaming` and `TestStreamingDynamicPartitioning`, and how their tests connect."""

from __future__ import annotations

from typing import Any

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TableName
from hive_ingest.record_writer import RecordWriter
from tests.support import connections

#: A table with two partition keys and one bucket, and one with two buckets and no partitions.
ALERTS, PLAIN = "testing.alerts", "testing2.alerts"
ASIA_INDIA = ("Asia", "India")

SALES_KEYS = (
    *("ss_sold_date_sk", "ss_sold_time_sk", "ss_item_sk", "ss_customer_sk", "ss_cdemo_sk", "ss_hdemo_sk"),
    *("ss_addr_sk", "ss_store_sk", "ss_promo_sk", "ss_ticket_number", "ss_quantity"),
)
SALES_PRICES = (
    *("ss_wholesale_cost", "ss_list_price", "ss_sales_price", "ss_ext_discount_amt", "ss_ext_sales_price"),
    *("ss_ext_wholesale_cost", "ss_ext_list_price", "ss_ext_tax", "ss_coupon_amt", "ss_net_paid"),
    *("ss_net_paid_inc_tax", "ss_net_profit"),
)

Row = tuple[Any, ...]


def create_alerts(client: MetastoreClient) -> None:
    """Create both tables, and a partition of the first one."""
    columns = {"id": "int", "msg": "string"}
    for database in ("testing", "testing2"):
        client.create_database(database)
    client.create_table(
        ALERTS,
        columns=columns,
        partition_keys={"continent": "string", "country": "string"},
        bucket_columns=["id"],
        num_buckets=1,
    )
    client.create_table(PLAIN, columns=columns, bucket_columns=["id"], num_buckets=2)
    client.add_partitions(ALERTS, [ASIA_INDIA])


def create_sales(client: MetastoreClient) -> None:
    """Create testing5.store_sales, which is bucketed by two columns that are not its first, and its partition 2015."""
    columns = dict.fromkeys(SALES_KEYS, "int") | dict.fromkeys(SALES_PRICES, "decimal(7,2)")
    client.create_database("testing5")
    client.create_table(
        "testing5.store_sales",
        columns=columns,
        partition_keys={"dt": "string"},
        bucket_columns=["ss_store_sk", "ss_promo_sk"],
        num_buckets=4,
        properties={"orc.compress": "NONE"},
    )
    client.add_partitions("testing5.store_sales", [["2015"]])


def sale(number: int, *partition: str) -> str:
    """One of the records that Hive's cases write to store_sales."""
    return ",".join([*map(str, range(11)), *[f"{number}.1"] * 12, *partition])


def connect(
    client: MetastoreClient, table: str = ALERTS, *partition: str, writer: RecordWriter | None = None, **options: Any
) -> StreamingConnection:
    """Connect to a table, or to one static partition of it; the records are text with commas if `writer` is None."""
    options.setdefault("agent_info", "UT_main")
    return connections.connect(
        client,
        table,
        record_writer=writer or hi.StrictDelimitedInputWriter(field_delimiter=","),
        static_partition_values=partition,
        **options,
    )


def rows(client: MetastoreClient, table: str = ALERTS, **options: Any) -> list[Row]:
    """All visible rows, with their partition keys, sorted by the first column."""
    found = [tuple(row.values()) for row in hi.read_table(client, table, **options).to_pylist()]
    return sorted(found, key=lambda row: row[0])


def rows_by_id(client: MetastoreClient, table: str | TableName) -> list[Row]:
    """The ROW__ID of each row, as (write id, bucket property, row number), then its columns; sorted."""
    found = hi.read_table(client, table, row_ids=True).to_pylist()
    return sorted((*row.pop("row__id").values(), *row.values()) for row in found)
