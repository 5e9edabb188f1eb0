package hiveingest.judge;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.metastore.api.Schema;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.session.SessionState;

/** One session of Hive on a metastore elsewhere, with the local job runner; its home folder holds scratch files. */
final class HiveSession {
  private final SessionState session;

  HiveSession(Path home, Map<String, String> settings) throws Exception {
    session = SessionState.start(configuration(home, settings));
  }

  HiveConf conf() {
    return session.getConf();
  }

  String set(String key, String value) {
    conf().set(key, value);
    return value;
  }

  /** Runs one statement: {"columns": [...], "types": [...], "rows": [[cell, ...], ...]}. */
  Map<String, Object> sql(String statement) throws Exception {
    // A driver keeps the settings that it was made with: a new one a statement sees every change.
    IDriver driver = DriverFactory.newDriver(conf());
    try {
      driver.setMaxRows(Integer.MAX_VALUE);
      Compat.run(driver, statement);
      return result(driver);
    } finally {
      driver.close();
      driver.destroy();
    }
  }

  private static Map<String, Object> result(IDriver driver) throws Exception {
    List<Object> rows = new ArrayList<>();
    while (driver.getResults(rows)) {
      // every call adds the next rows
    }
    Map<String, Object> result = new LinkedHashMap<>();
    result.put("columns", fields(driver.getSchema(), FieldSchema::getName));
    result.put("types", fields(driver.getSchema(), FieldSchema::getType));
    rows.replaceAll(row -> row instanceof String ? List.of(row) : row);  // EXPLAIN gives bare lines
    result.put("rows", rows);
    return result;
  }

  private static List<String> fields(Schema schema, java.util.function.Function<FieldSchema, String> part) {
    List<String> parts = new ArrayList<>();
    if (schema != null && schema.getFieldSchemas() != null) schema.getFieldSchemas().forEach(f -> parts.add(part.apply(f)));
    return parts;
  }

  private static HiveConf configuration(Path home, Map<String, String> settings) throws Exception {
    Path scratch = Files.createDirectories(home.resolve("tmp"));
    HiveConf conf = new HiveConf(HiveSession.class);
    conf.set("hive.metastore.schema.verification", "false");
    conf.set("hive.metastore.execute.setugi", "false");
    conf.set("hive.exec.scratchdir", scratch.resolve("scratch").toString());
    conf.set("hive.exec.local.scratchdir", scratch.resolve("local").toString());
    conf.set("hive.downloaded.resources.dir", scratch.resolve("resources").toString());
    conf.set("hive.querylog.location", scratch.resolve("querylog").toString());
    conf.set("hadoop.tmp.dir", scratch.resolve("hadoop").toString());
    conf.set("fs.defaultFS", "file:///");
    conf.set("mapreduce.framework.name", "local");
    conf.set("mapreduce.cluster.local.dir", scratch.resolve("mapreduce").toString());
    conf.set("mapreduce.task.io.sort.mb", "4");  // which every map task of a job with a reducer allocates
    conf.set("hive.execution.engine", "mr");
    conf.set("hive.exec.submitviachild", "false");
    conf.set("hive.exec.mode.local.auto", "true");
    conf.set("hive.auto.convert.join", "false");  // a local task would want an installed Hadoop
    conf.set("hive.exec.counters.pull.interval", "50");  // ms that a job may be over unseen; Hive's own jobs,
    conf.set("mapreduce.client.completion.pollinterval", "50");  // and the compactor's
    conf.set("hive.support.concurrency", "true");
    conf.set("hive.txn.manager", "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager");
    conf.set("hive.exec.dynamic.partition.mode", "nonstrict");
    conf.set("hive.stats.autogather", "false");
    conf.set("hive.compute.query.using.stats", "false");  // a count must come from the files,
    conf.set("hive.query.results.cache.enabled", "false");  // and so must an answer that was given before
    conf.set("hive.vectorized.execution.enabled", "false");
    conf.set("list.sink.output.formatter", CellFormatter.class.getName());
    Compat.configure(conf);
    settings.forEach(conf::set);
    return conf;
  }
}
