package hiveingest.judge;

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.io.orc.OrcSerde;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.CompactorThread;
import org.apache.hadoop.hive.ql.txn.compactor.Initiator;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/** Where Hive 4.0.1 differs from 3.1.3. */
final class Compat {
  private static final Map<String, Class<? extends CompactorThread>> THREADS =
      Map.of("initiator", Initiator.class, "worker", Worker.class, "cleaner", Cleaner.class);

  private static final String[] CAPABILITIES = {
    "HIVEFULLACIDWRITE", "HIVEFULLACIDREAD", "HIVEMANAGEDINSERTWRITE", "HIVEMANAGEDINSERTREAD",
    "HIVECACHEINVALIDATE", "HIVEMANAGESTATS", "HIVESQL", "HIVEMQT", "HIVEONLYMQTWRITE",
    "ACCEPTS_UNMODIFIED_METADATA",
  };

  private Compat() {}

  static void configure(HiveConf conf) {
    conf.set("hive.query.reexecution.enabled", "false");  // needs what only a server has
    conf.set("hive.cbo.fallback.strategy", "NEVER");  // an error in a statement is told as it is
    // As HiveServer2 does when it starts: without capabilities the metastore makes no ACID tables.
    HiveMetaStoreClient.setProcessorIdentifier("judge");
    HiveMetaStoreClient.setProcessorCapabilities(CAPABILITIES);
  }

  static Map<String, Judge.Call> calls(HiveConf conf) {
    return Map.of();
  }

  static void run(IDriver driver, String statement) throws Exception {
    driver.run(statement);
  }

  static void initialize(OrcSerde serde, Configuration conf, Properties table) throws Exception {
    serde.initialize(conf, table, null);
  }

  /** One round of a compactor's thread, in this thread. */
  static Object compactorPass(HiveConf conf, String name) throws Exception {
    CompactorThread thread = THREADS.get(name).getDeclaredConstructor().newInstance();
    thread.setConf(conf);
    thread.init(new AtomicBoolean(true));  // told to stop: it ends after one round
    thread.run();
    return null;
  }
}
