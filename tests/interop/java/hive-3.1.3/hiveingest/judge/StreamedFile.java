package hiveingest.judge;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hive.streaming.HiveStreamingConnection;

/** A file of lines through Hive Streaming V2, a transaction every so many rows, with a watch beside it. */
final class StreamedFile {
  private final HiveStreamingConnection connection;
  private final int rowsPerCommit;
  private long beginNanos;
  private long writeNanos;
  private long commitNanos;

  private StreamedFile(HiveStreamingConnection connection, int rowsPerCommit) {
    this.connection = connection;
    this.rowsPerCommit = rowsPerCommit;
  }

  /**
   * {"database", "table", "format", "batch", "file", "rows_per_commit"}: seconds in all, from the first begin to the
   * end of close, of each step, and of processor time.
   */
  static Map<String, Object> stream(HiveConf conf, JsonNode request) throws Exception {
    System.gc();  // what the run before has left is not this one's
    HiveStreamingConnection connection =
        Streams.connect(new HiveConf(conf), request, Streams.recordWriter(request));
    StreamedFile streamed = new StreamedFile(connection, request.get("rows_per_commit").asInt());
    long processor = processorNanos();
    long start = System.nanoTime();
    try (InputStream input = Files.newInputStream(Path.of(request.get("file").asText()))) {
      streamed.write(new LineReader(input));
    } finally {
      connection.close();
    }
    long all = System.nanoTime() - start;
    return Map.of(
        "seconds", all / 1e9,
        "begin", streamed.beginNanos / 1e9,
        "write", streamed.writeNanos / 1e9,
        "commit", streamed.commitNanos / 1e9,
        "processor", (processorNanos() - processor) / 1e9);
  }

  private void write(LineReader lines) throws Exception {
    byte[] line = lines.next();
    while (line != null) {
      long start = System.nanoTime();
      connection.beginTransaction();
      long begun = System.nanoTime();
      for (int i = 0; i < rowsPerCommit && line != null; i++) {
        connection.write(line);
        line = lines.next();
      }
      long written = System.nanoTime();
      connection.commitTransaction();
      beginNanos += begun - start;
      writeNanos += written - begun;
      commitNanos += System.nanoTime() - written;
    }
  }

  private static long processorNanos() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
        .getProcessCpuTime();
  }
}
