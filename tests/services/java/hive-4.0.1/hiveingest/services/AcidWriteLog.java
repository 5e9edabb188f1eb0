package hiveingest.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.sql.Connection;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.TransactionalMetaStoreEventListener;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.events.AcidWriteEvent;
import org.apache.hadoop.hive.metastore.tools.SQLGenerator;

/**
 * A listener that keeps what it is told of ACID writes: a line each in the file `acid_writes` of the folder
 * `java.io.tmpdir`, of table, write id, partition values and files, with tabs between them.
 */
public final class AcidWriteLog extends TransactionalMetaStoreEventListener {
  public AcidWriteLog(Configuration conf) {
    super(conf);
  }

  @Override
  public void onAcidWrite(AcidWriteEvent event, Connection connection, SQLGenerator sql) throws MetaException {
    Path log = Path.of(System.getProperty("java.io.tmpdir"), "acid_writes");
    Partition partition = event.getPartitionObj();
    String values = partition == null ? "" : String.join("/", partition.getValues());
    String table = event.getDatabase() + "." + event.getTable();
    String line = String.join("\t", table, event.getWriteId().toString(), values, String.join("\t", event.getFiles()));
    try {
      Files.write(log, List.of(line), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException failure) {
      throw new MetaException(failure.toString());
    }
  }
}
