"""`hive-ingest abort`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hive_ingest.cli.logs import confirm
from hive_ingest.cli.options import DryRunOption, MetastoreOption, WarehouseOption, connected

if TYPE_CHECKING:
    from hive_ingest.metastore_client import MetastoreClient


def abort(
    transactions: Annotated[
        list[int], typer.Argument(metavar="TXN…", min=1, help="Transaction ids, as listed by `show transactions`.")
    ],
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Abort open transactions. Their locks are released, and none of their rows will be visible."""
    from hive_ingest.cli.failures import one_line
    from hive_ingest.errors import TransactionError
    from hive_ingest.identity import this_host, this_user
    from hive_ingest.model import TxnId

    reason = f"hive-ingest abort by {this_user()}@{this_host()}"
    refused = 0
    with connected(metastore, warehouse) as client:
        if dry_run:
            refused = _print_plan(client, transactions)
        for txn_id in [] if dry_run else transactions:
            try:
                client.abort_txn(TxnId(txn_id), reason=reason)
            except TransactionError as error:
                refused += 1
                typer.echo(f"error: {one_line(str(error))}", err=True)
            else:
                confirm(f"transaction {txn_id} is aborted")
    if refused:
        raise typer.Exit(1)


def _print_plan(client: MetastoreClient, transactions: list[int]) -> int:
    """Print whose transactions would be aborted. Returns how many of them are not open."""
    from hive_ingest.model import TxnId, TxnState

    known = {info.id: info for info in client.get_open_txns_info().transactions if info.state is TxnState.OPEN}
    agents = {lock.txn_id: lock.agent_info for lock in client.show_locks()}
    for txn_id in transactions:
        info = known.get(TxnId(txn_id))
        if info is None:
            typer.echo(f"error: transaction {txn_id} is not open", err=True)
        else:
            agent = agents.get(info.id, info.agent_info)
            typer.echo(f"would abort transaction {txn_id} of {info.user}@{info.hostname}{f', {agent}' * bool(agent)}")
    return len({*transactions} - known.keys())
