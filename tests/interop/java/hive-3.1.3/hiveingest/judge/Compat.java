package hiveingest.judge;

import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.io.orc.OrcSerde;
import org.apache.hadoop.hive.ql.processors.CommandProcessorResponse;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.Initiator;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/** Where Hive 3.1.3 differs from 4.0.1. */
final class Compat {
  private static final Map<String, Class<? extends Thread>> THREADS =
      Map.of("initiator", Initiator.class, "worker", Worker.class, "cleaner", Cleaner.class);

  private Compat() {}

  static void configure(HiveConf conf) {}

  /** Hive Streaming, which only this version has. */
  static Map<String, Judge.Call> calls(HiveConf conf) {
    Map<String, Judge.Call> calls = new HashMap<>(new Streams(conf).calls());
    calls.put("stream_file", request -> StreamedFile.stream(conf, request));
    return calls;
  }

  static void run(IDriver driver, String statement) throws Exception {
    CommandProcessorResponse response = driver.run(statement);
    if (response.getResponseCode() != 0) {
      throw new IllegalStateException(response.getErrorMessage(), response.getException());
    }
  }

  static void initialize(OrcSerde serde, Configuration conf, Properties table) throws Exception {
    serde.initialize(conf, table);
  }

  /** One round of a compactor's thread, in this thread. */
  static Object compactorPass(HiveConf conf, String name) throws Exception {
    Thread thread = THREADS.get(name).getDeclaredConstructor().newInstance();
    Class<?> type = thread.getClass();
    type.getMethod("setThreadId", int.class).invoke(thread, (int) Thread.currentThread().getId());
    type.getMethod("setConf", Configuration.class).invoke(thread, conf);
    Method init = type.getMethod("init", AtomicBoolean.class, AtomicBoolean.class);
    init.invoke(thread, new AtomicBoolean(true), new AtomicBoolean());  // told to stop: it ends after one round
    thread.run();
    return null;
  }
}
