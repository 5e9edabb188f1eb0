"""Transactions, write ids and snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.errors import (
    ConfigurationError,
    InvalidOperation,
    MetastoreError,
    MetastoreUnavailable,
    NoSuchTxn,
    StreamingError,
    TxnAborted,
    UnsupportedFeature,
)
from hive_ingest.identity import this_host
from hive_ingest.metastore_client.thrift.convert import to_txn_info, to_valid_txns, to_valid_write_ids
from hive_ingest.metastore_client.thrift.failures import NoResponse, ServerFailed
from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.metastore_client.thrift.part import Part
from hive_ingest.model import (
    CommitKeyValue,
    DataOperationType,
    HeartbeatTxnRange,
    OpenTxnsInfo,
    TableName,
    TxnId,
    TxnState,
    TxnToWriteId,
    TxnType,
    WriteId,
)

_KEY_PREFIX = "_meta"
#: The most ids that `raise_write_ids` and `raise_txn_ids` take, in all and by one call.
_MOST_SKIPPED, _SKIPPED_AT_ONCE = 1_000_000, 500
_MIN_HISTORY = "hive.txn.use.minhistorywriteid"
#: Length of the columns for users, hosts and agents: the server fails on a longer text.
MAX_TEXT = 128


class Transactions(Part):
    """The calls about transactions, write ids and snapshots."""

    def open_txns(
        self,
        count: int = 1,
        *,
        user: str = "",
        agent_info: str = "Unknown",
        txn_type: TxnType = TxnType.DEFAULT,
    ) -> list[TxnId]:
        """Open up to `count` transactions (fewer above `hive.txn.max.open.batch`). Raises TooManyOpenTxns.

        If the response is lost, the opened transactions belong to nobody and time out.
        """
        if count < 1:
            raise ConfigurationError(f"count={count}: open at least one transaction")
        request = idl().OpenTxnRequest(
            num_txns=count,
            user=(user or self._channel.options.effective_user)[:MAX_TEXT],
            hostname=this_host()[:MAX_TEXT],
            agentInfo=agent_info[:MAX_TEXT],
            txn_type=int(txn_type),
        )
        return [TxnId(id_) for id_ in self._channel.call("open_txns", request, is_repeatable=False).txn_ids]

    def allocate_table_write_ids(self, table: str | TableName, txn_ids: Sequence[TxnId]) -> list[TxnToWriteId]:
        """Allocate write ids. Idempotent; lower transactions get lower ids. Raises NoSuchTxn, TxnAborted."""
        if not txn_ids:
            return []
        name = TableName.of(table)
        request = idl().AllocateTableWriteIdsRequest(dbName=name.database, tableName=name.table, txnIds=list(txn_ids))
        try:
            answer = self._channel.call("allocate_table_write_ids", request, is_repeatable=True)
        except MetastoreUnavailable:
            raise
        except MetastoreError as error:
            # Servers report a transaction that is not open only as an internal error, or by closing the connection.
            raise self._not_open(txn_ids) or error from error
        return sorted(
            (TxnToWriteId(TxnId(entry.txnId), WriteId(entry.writeId)) for entry in answer.txnToWriteIds),
            key=lambda entry: entry.txn_id,
        )

    def get_max_allocated_write_id(self, table: str | TableName) -> WriteId | None:
        """The highest allocated write id; None for servers of version 3, which do not report it."""
        if not self._version.has_max_allocated_write_id:
            return None
        name = TableName.of(table)
        request = idl().MaxAllocatedTableWriteIdRequest(dbName=name.database, tableName=name.table)
        answer = self._channel.call("get_max_allocated_table_write_id", request, is_repeatable=True)
        return WriteId(answer.maxWriteId)

    def raise_write_ids(self, table: str | TableName, at_least: WriteId) -> None:
        """Allocate no write id below `at_least` from now on. Skipped write ids count as committed.

        Hive's own `seed_write_id` (version 4) fails once the table has write ids, so they are taken, each by a
        transaction that commits nothing.

        Raises:
            UnsupportedFeature: More than a million ids would have to be skipped.
        """
        name = TableName.of(table)
        missing = at_least - 1 - self.get_valid_write_ids([name])[0].high_water_mark
        if missing > _MOST_SKIPPED:
            raise UnsupportedFeature(
                f"{name}: {missing:,} write ids would have to be taken one by one to reach {at_least}: raise NWI_NEXT "
                "of the table's row in NEXT_WRITE_ID in the metastore's database instead"
            )
        last = 0
        while last < at_least - 1:
            wanted = min(_SKIPPED_AT_ONCE, max(1, missing))
            txn_ids = self.open_txns(wanted, agent_info="hive-ingest: raise write ids")
            last = self.allocate_table_write_ids(name, txn_ids)[-1].write_id
            missing = at_least - 1 - last
            for txn_id in txn_ids:
                self.commit_txn(txn_id)

    def raise_txn_ids(self, at_least: TxnId) -> None:
        """Open no transaction below `at_least` from now on. Skipped ones count as committed: each commits nothing.

        Raises:
            UnsupportedFeature: More than a million ids would have to be skipped.
        """
        missing = at_least - 1 - self.get_valid_txns().high_water_mark
        if missing > _MOST_SKIPPED:
            raise UnsupportedFeature(
                f"{missing:,} transactions would have to be opened one by one to reach {at_least}: raise the ids of "
                "transactions in the metastore's database instead"
            )
        while missing > 0:
            txn_ids = self.open_txns(min(_SKIPPED_AT_ONCE, missing), agent_info="hive-ingest: raise transaction ids")
            missing = at_least - 1 - txn_ids[-1]
            for txn_id in txn_ids:
                self.commit_txn(txn_id)

    def _not_open(self, txn_ids: Sequence[TxnId]) -> StreamingError | None:
        """The error of the first one that is not open."""
        states = {info.id: info.state for info in self.get_open_txns_info().transactions}
        for txn_id in txn_ids:
            if states.get(txn_id) is TxnState.ABORTED:
                return TxnAborted(f"transaction {txn_id} is aborted: nothing of it is visible, begin a new one")
            if txn_id not in states:
                return NoSuchTxn(f"transaction {txn_id} is not open: it was never opened, or has ended")
        return None

    def add_dynamic_partitions(
        self,
        txn_id: TxnId,
        write_id: WriteId,
        table: str | TableName,
        partition_names: Sequence[str],
        operation_type: DataOperationType = DataOperationType.INSERT,
    ) -> None:
        """Register the partitions *written* (HIVE-24020). Raises NoSuchTxn, TxnAborted."""
        name = TableName.of(table)
        request = idl().AddDynamicPartitions(
            txnid=txn_id,
            writeid=write_id,
            dbname=name.database,
            tablename=name.table,
            partitionnames=list(partition_names),
            operationType=int(operation_type),
        )
        # A partition that is named twice gets two rows in TXN_COMPONENTS, which is harmless.
        self._channel.call("add_dynamic_partitions", request, is_repeatable=True)

    # -- end ---------------------------------------------------------------------------------------

    def commit_txn(
        self, txn_id: TxnId, *, key_value: CommitKeyValue | None = None, excl_write_enabled: bool = True
    ) -> None:
        """Commit. Idempotent while the commit is remembered; one without writes is forgotten within seconds or at once.

        Sent once: a caller that repeats it after MetastoreUnavailable must know that NoSuchTxn then proves nothing.
        Raises NoSuchTxn, TxnAborted, InvalidOperation (a key_value that does not fit; the transaction stays open),
        UnsupportedFeature (a key_value, and a server that would ignore it), MetastoreUnavailable (the outcome is
        unknown).
        """
        t = idl()
        request = t.CommitTxnRequest(txnid=txn_id, exclWriteEnabled=excl_write_enabled)
        if key_value is not None:
            self._check_key(key_value)
            request.keyValue = t.CommitTxnKeyValue(tableId=key_value.table_id, key=key_value.key, value=key_value.value)
        try:
            self._channel.call("commit_txn", request, is_repeatable=False)
        except ServerFailed as error:
            raise self._commit_failed(txn_id, key_value, error) from error

    def _check_key(self, key_value: CommitKeyValue) -> None:
        if not self._version.keeps_commit_key_value:
            raise UnsupportedFeature(
                f"a commit with a key and a value needs Hive 4 (HIVE-20538): this metastore ({self._version.text}) "
                f"would commit and ignore {key_value.key!r}; use a sink, whose progress works there"
            )
        if not key_value.key.startswith(_KEY_PREFIX):
            raise InvalidOperation(
                f"a commit can only set parameters that begin with {_KEY_PREFIX!r}, not {key_value.key!r}"
            )

    def _commit_failed(self, txn_id: TxnId, key_value: CommitKeyValue | None, error: ServerFailed) -> MetastoreError:
        """The error for a commit that the server reported as failed: it may have failed after committing."""
        if txn_id not in self.get_valid_txns().open:
            return MetastoreUnavailable(f"transaction {txn_id}: {error}; whether it is committed is unknown")
        if key_value is None:
            return MetastoreError(f"transaction {txn_id} is still open: {error}")
        return InvalidOperation(
            f"transaction {txn_id} is still open: table id {key_value.table_id} most likely has no parameter "
            f"{key_value.key!r}, and a commit only changes one that is there (HIVE-20538): set it at create_table. "
            f"{error}"
        )

    def abort_txn(self, txn_id: TxnId, *, reason: str = "") -> None:
        """Abort. Idempotent. Raises NoSuchTxn (never opened, or "already committed"). Servers keep no `reason`."""
        request = idl().AbortTxnRequest(txnid=txn_id)
        try:
            self._channel.call("abort_txn", request, is_repeatable=False)
        except NoResponse:
            # Repeated here: once it is aborted, Hive may forget it before the second call.
            try:
                self._channel.call("abort_txn", request, is_repeatable=True)
            except NoSuchTxn as error:
                if "committed" in str(error):
                    raise

    def abort_txns(self, txn_ids: Sequence[TxnId], *, reason: str = "") -> None:
        """Abort the open ones and ignore the others. Servers keep no `reason`."""
        if txn_ids:
            self._channel.call("abort_txns", idl().AbortTxnsRequest(txn_ids=list(txn_ids)), is_repeatable=True)

    # -- heartbeats --------------------------------------------------------------------------------

    def heartbeat_txn_range(self, min_txn: TxnId, max_txn: TxnId) -> HeartbeatTxnRange:
        """Send a heartbeat for every open transaction of the closed range. Returns those that are gone."""
        request = idl().HeartbeatTxnRangeRequest(min=min_txn, max=max_txn)
        answer = self.call_heartbeat("heartbeat_txn_range", request)
        return HeartbeatTxnRange(frozenset(map(TxnId, answer.aborted)), frozenset(map(TxnId, answer.nosuch)))

    def call_heartbeat(self, name: str, request: Any) -> Any:
        """Send a heartbeat, and retry it only for a share of the timeout, so that others can follow before its end."""
        share = self._context.txn_timeout_seconds / 6
        return self._channel.call(
            name, request, is_repeatable=True, timeout_seconds=share, retry_seconds=min(share, 1.0)
        )

    # -- snapshots ---------------------------------------------------------------------------------

    def get_open_txns_info(self) -> OpenTxnsInfo:
        """All open transactions, and the aborted ones that the server remembers."""
        answer = self._channel.call("get_open_txns_info", is_repeatable=True)
        return OpenTxnsInfo(TxnId(answer.txn_high_water_mark), tuple(map(to_txn_info, answer.open_txns)))

    def get_valid_txns(self, txn_id: TxnId | None = None) -> ValidTxnList:
        """The current snapshot. With `txn_id`, that transaction is left out of the exceptions."""
        return to_valid_txns(self._channel.call("get_open_txns", is_repeatable=True), txn_id)

    def get_valid_write_ids(
        self, tables: Sequence[str | TableName], valid_txns: ValidTxnList | None = None
    ) -> list[ValidWriteIdList]:
        """One list for each table, in order, as of the snapshot (or the current one)."""
        names = [TableName.of(table) for table in tables]
        if not names:
            return []
        seen = valid_txns or self.get_valid_txns()
        request = idl().GetValidWriteIdsRequest(
            fullTableNames=[str(name) for name in dict.fromkeys(names)], validTxnList=seen.to_string()
        )
        answer = self._channel.call("get_valid_write_ids", request, is_repeatable=True)
        found = {each.table: each for each in map(to_valid_write_ids, answer.tblValidWriteIds)}
        return [found[name] for name in names]

    def add_write_ids_to_min_history(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Register the write ids that a reader's snapshot needs (HIVE-24291) if the server uses it (4.2 by default).

        Other servers keep what an open transaction may need by the id of the transaction.
        """
        if not write_ids or not self._goes_by_min_history():
            return
        lowest = {str(each.table): each.min_open or each.high_water_mark + 1 for each in write_ids}
        self._channel.call("add_write_ids_to_min_history", txn_id, lowest, is_repeatable=True)

    def _goes_by_min_history(self) -> bool:
        if self._context.uses_min_history is None:
            self._context.uses_min_history = self._version.has_min_history and (
                self._channel.call("get_config_value", _MIN_HISTORY, "false", is_repeatable=True).lower() == "true"
            )
        return self._context.uses_min_history
