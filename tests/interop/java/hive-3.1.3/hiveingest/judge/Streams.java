package hiveingest.judge;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hive.streaming.HiveStreamingConnection;
import org.apache.hive.streaming.RecordWriter;
import org.apache.hive.streaming.StreamingException;
import org.apache.hive.streaming.StrictDelimitedInputWriter;
import org.apache.hive.streaming.StrictJsonWriter;

/** Hive Streaming V2, one step a call: connections stay open between calls, each under the name of its table. */
final class Streams {
  private final HiveConf conf;
  private final Map<String, Stream> streams = new HashMap<>();

  Streams(HiveConf conf) {
    this.conf = conf;
  }

  /** What can be asked; each request names its "database" and "table". */
  Map<String, Judge.Call> calls() {
    return Map.of(
        "stream_open", this::open,
        "stream_begin", step(stream -> stream.connection.beginTransaction()),
        "stream_write", this::write,
        "stream_flush", step(stream -> stream.writer.flush()),
        "stream_commit", step(stream -> stream.connection.commitTransaction()),
        "stream_abort", step(stream -> stream.connection.abortTransaction()),
        "stream_close", this::close);
  }

  /** A connection as a program of Java's makes it; "format" is json or delimited, "batch" the transactions of one. */
  static HiveStreamingConnection connect(HiveConf conf, JsonNode request, RecordWriter writer) throws StreamingException {
    return HiveStreamingConnection.newBuilder()
        .withDatabase(request.get("database").asText())
        .withTable(request.get("table").asText())
        .withAgentInfo("hive-ingest judge")
        .withTransactionBatchSize(request.get("batch").asInt())
        .withRecordWriter(writer)
        .withHiveConf(conf)
        .connect();
  }

  static RecordWriter recordWriter(JsonNode request) {
    return request.get("format").asText().equals("json")
        ? StrictJsonWriter.newBuilder().build()
        : StrictDelimitedInputWriter.newBuilder().withFieldDelimiter(',').build();
  }

  private Object open(JsonNode request) throws StreamingException {
    HiveConf flushing = new HiveConf(conf);
    // The checksummed local file system keeps back what is flushed until a block is full; HDFS does not.
    flushing.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem");
    flushing.setBoolean("fs.file.impl.disable.cache", true);
    RecordWriter writer = recordWriter(request);
    streams.put(name(request), new Stream(writer, connect(flushing, request, writer)));
    return null;
  }

  /** "records": one text a record. */
  private Object write(JsonNode request) throws StreamingException {
    HiveStreamingConnection connection = streams.get(name(request)).connection;
    for (JsonNode record : request.get("records")) connection.write(record.asText().getBytes(StandardCharsets.UTF_8));
    return null;
  }

  private Object close(JsonNode request) {
    streams.remove(name(request)).connection.close();
    return null;
  }

  private Judge.Call step(Step step) {
    return request -> {
      step.take(streams.get(name(request)));
      return null;
    };
  }

  private static String name(JsonNode request) {
    return request.get("database").asText() + "." + request.get("table").asText();
  }

  private interface Step {
    void take(Stream stream) throws StreamingException;
  }

  private record Stream(RecordWriter writer, HiveStreamingConnection connection) {}
}
