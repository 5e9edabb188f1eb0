package hiveingest.judge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.DataOperationType;
import org.apache.hadoop.hive.metastore.api.LockComponent;
import org.apache.hadoop.hive.metastore.api.LockLevel;
import org.apache.hadoop.hive.metastore.api.LockRequest;
import org.apache.hadoop.hive.metastore.api.LockState;
import org.apache.hadoop.hive.metastore.api.LockType;

/** Transactions of a writer outside: Hive's metastore gets to know write ids whose files come from elsewhere. */
final class WriteIds {
  private static final String AGENT = "hive-ingest judge";

  private final HiveConf conf;

  WriteIds(HiveConf conf) {
    this.conf = conf;
  }

  /**
   * {"database", "table", "outcomes": ["commit" | "abort" | "open", ...], "partitions": [name, ...]}: one
   * transaction with one write id for each outcome, in that order. Gives [[transaction, write id], ...].
   */
  Object allocate(JsonNode request) throws Exception {
    List<List<Long>> ids = new ArrayList<>();
    IMetaStoreClient client = new HiveMetaStoreClient(conf);
    try {
      for (JsonNode outcome : request.get("outcomes")) ids.add(one(client, request, outcome.asText()));
    } finally {
      client.close();
    }
    return ids;
  }

  /** {"transaction", "outcome"}: ends a transaction that was left open. */
  Object finish(JsonNode request) throws Exception {
    IMetaStoreClient client = new HiveMetaStoreClient(conf);
    try {
      end(client, request.get("transaction").asLong(), request.get("outcome").asText());
    } finally {
      client.close();
    }
    return null;
  }

  private static List<Long> one(IMetaStoreClient client, JsonNode request, String outcome) throws Exception {
    String database = request.get("database").asText();
    String table = request.get("table").asText();
    List<String> partitions = new ArrayList<>();
    request.get("partitions").forEach(name -> partitions.add(name.asText()));
    long transaction = client.openTxn(AGENT);
    long writeId = client.allocateTableWriteId(transaction, database, table);
    lock(client, transaction, database, table, !partitions.isEmpty());
    if (!partitions.isEmpty()) {
      client.addDynamicPartitions(transaction, writeId, database, table, partitions, DataOperationType.INSERT);
    }
    end(client, transaction, outcome);
    return List.of(transaction, writeId);
  }

  /** Registers the write: Hive soon forgets an aborted transaction without components (HIVE-21052). */
  private static void lock(IMetaStoreClient client, long transaction, String database, String table, boolean dynamic)
      throws Exception {
    LockComponent component = new LockComponent(LockType.SHARED_READ, LockLevel.TABLE, database);
    component.setTablename(table);
    component.setOperationType(DataOperationType.INSERT);
    component.setIsTransactional(true);
    component.setIsDynamicPartitionWrite(dynamic);
    LockRequest request = new LockRequest(Collections.singletonList(component), "judge", "localhost");
    request.setTxnid(transaction);
    request.setAgentInfo(AGENT);
    LockState state = client.lock(request).getState();
    if (state != LockState.ACQUIRED) throw new IllegalStateException("lock of " + database + "." + table + " is " + state);
  }

  private static void end(IMetaStoreClient client, long transaction, String outcome) throws Exception {
    switch (outcome) {
      case "commit":
        client.commitTxn(transaction);
        break;
      case "abort":
        client.rollbackTxn(transaction);
        break;
      case "open":
        break;
      default:
        throw new IllegalArgumentException("outcome " + outcome + " is none of commit, abort, open");
    }
  }
}
