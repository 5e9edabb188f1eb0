"""`hive-ingest abort`."""

from __future__ import annotations

from typing import Annotated

import typer

from hive_ingest.cli.logs import confirm
from hive_ingest.cli.options import MetastoreOption, WarehouseOption, connected


def abort(
    transactions: Annotated[
        list[int], typer.Argument(metavar="TXN…", min=1, help="Transaction ids, as listed by `show transactions`.")
    ],
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
) -> None:
    """Abort open transactions. Their locks are released, and none of their rows will be visible."""
    from hive_ingest.cli.failures import one_line
    from hive_ingest.errors import TransactionError
    from hive_ingest.identity import this_host, this_user
    from hive_ingest.model import TxnId

    reason = f"hive-ingest abort by {this_user()}@{this_host()}"
    refused = 0
    with connected(metastore, warehouse) as client:
        for txn_id in transactions:
            try:
                client.abort_txn(TxnId(txn_id), reason=reason)
            except TransactionError as error:
                refused += 1
                typer.echo(f"error: {one_line(str(error))}", err=True)
            else:
                confirm(f"transaction {txn_id} is aborted")
    if refused:
        raise typer.Exit(1)
