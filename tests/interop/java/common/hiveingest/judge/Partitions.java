package hiveingest.judge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.api.StorageDescriptor;
import org.apache.hadoop.hive.metastore.api.Table;

/** Partitions made elsewhere, told to Hive's metastore: HiveQL refuses the name of the default partition. */
final class Partitions {
  private final HiveConf conf;

  Partitions(HiveConf conf) {
    this.conf = conf;
  }

  /** {"database", "table", "partitions": [{"values": [text, ...], "location": URI}, ...]} */
  Object add(JsonNode request) throws Exception {
    IMetaStoreClient client = new HiveMetaStoreClient(conf);
    try {
      Table table = client.getTable(request.get("database").asText(), request.get("table").asText());
      List<Partition> partitions = new ArrayList<>();
      for (JsonNode partition : request.get("partitions")) partitions.add(partition(table, partition));
      client.add_partitions(partitions);
    } finally {
      client.close();
    }
    return null;
  }

  private static Partition partition(Table table, JsonNode request) {
    List<String> values = new ArrayList<>();
    request.get("values").forEach(value -> values.add(value.asText()));
    StorageDescriptor storage = table.getSd().deepCopy();
    storage.setLocation(request.get("location").asText());
    int now = (int) (System.currentTimeMillis() / 1000);
    return new Partition(values, table.getDbName(), table.getTableName(), now, 0, storage, new HashMap<>());
  }
}
