package hiveingest.judge;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** What `hive --orcfiledump` prints about a file. */
final class OrcDump {
  private OrcDump() {}

  static String dump(String file) throws Exception {
    ByteArrayOutputStream text = new ByteArrayOutputStream();
    PrintStream before = System.out;
    System.setOut(new PrintStream(text, true, StandardCharsets.UTF_8));
    try {
      org.apache.orc.tools.FileDump.main(new String[] {file});
    } finally {
      System.setOut(before);
    }
    return text.toString(StandardCharsets.UTF_8);
  }
}
