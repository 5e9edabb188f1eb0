package hiveingest.judge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.io.AcidInputFormat;
import org.apache.hadoop.hive.ql.io.AcidUtils;
import org.apache.hadoop.hive.ql.io.RecordIdentifier;
import org.apache.hadoop.hive.ql.io.orc.OrcInputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcSerde;
import org.apache.hadoop.hive.ql.io.orc.OrcStruct;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

/** Hive's own reader of an ACID folder in row mode, with a snapshot that the caller names; no metastore. */
final class AcidReader {
  private static final String ALL_TRANSACTIONS = Long.MAX_VALUE + ":" + Long.MAX_VALUE + "::";

  private final HiveConf conf;

  AcidReader(HiveConf conf) {
    this.conf = conf;
  }

  /**
   * {"folder", "columns": "a,b", "types": "int:string", "write_ids": ValidReaderWriteIdList as text}: rows as
   * [[write id, bucket property, row id], [cell, ...]], in the order of Hive's splits.
   */
  List<Object> read(JsonNode request) throws Exception {
    JobConf job = job(request);
    StructObjectInspector inspector = inspector(job, request);
    OrcInputFormat format = new OrcInputFormat();
    List<Object> rows = new ArrayList<>();
    for (InputSplit split : format.getSplits(job, 1)) {
      readSplit(format.getRecordReader(split, job, Reporter.NULL), inspector, rows);
    }
    return rows;
  }

  /** What Hive would give to a task each: [[file, start, length], ...]. Arguments as for read. */
  List<Object> splits(JsonNode request) throws Exception {
    List<Object> splits = new ArrayList<>();
    for (InputSplit split : new OrcInputFormat().getSplits(job(request), 1)) {
      FileSplit part = (FileSplit) split;
      splits.add(List.of(part.getPath().toUri().getPath(), part.getStart(), part.getLength()));
    }
    return splits;
  }

  private static void readSplit(RecordReader<NullWritable, OrcStruct> reader, StructObjectInspector inspector, List<Object> rows)
      throws Exception {
    NullWritable key = reader.createKey();
    OrcStruct value = reader.createValue();
    while (reader.next(key, value)) {
      RecordIdentifier id = ((AcidInputFormat.AcidRecordReader<?, ?>) reader).getRecordIdentifier();
      rows.add(List.of(
          List.of(id.getWriteId(), id.getBucketProperty(), id.getRowId()), CellFormatter.cells(value, inspector)));
    }
    reader.close();
  }

  private static StructObjectInspector inspector(JobConf job, JsonNode request) throws Exception {
    Properties table = new Properties();
    table.setProperty("columns", request.get("columns").asText());
    table.setProperty("columns.types", request.get("types").asText());
    OrcSerde serde = new OrcSerde();
    Compat.initialize(serde, job, table);
    return (StructObjectInspector) serde.getObjectInspector();
  }

  private JobConf job(JsonNode request) {
    JobConf job = new JobConf(conf);
    String columns = request.get("columns").asText();
    String types = request.get("types").asText();
    job.set("columns", columns);
    job.set("columns.types", types);
    job.set("schema.evolution.columns", columns);
    job.set("schema.evolution.columns.types", types);
    job.set("hive.io.file.read.all.columns", "true");
    job.set("hive.io.file.readcolumn.ids", "");
    job.set("bucket_count", request.get("buckets").asText());
    job.set("transactional", "true");
    job.set("transactional_properties", "default");
    job.set("hive.txn.valid.txns", ALL_TRANSACTIONS);
    job.set("hive.txn.valid.writeids", request.get("write_ids").asText());
    job.setBoolean("hive.vectorized.execution.enabled", false);
    AcidUtils.setAcidOperationalProperties(job, true, AcidUtils.AcidOperationalProperties.getDefault());
    FileInputFormat.setInputPaths(job, new Path(request.get("folder").asText()));
    return job;
  }
}
