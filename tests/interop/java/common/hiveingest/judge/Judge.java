package hiveingest.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.ZoneId;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TimeZone;

/**
 * Real Hive in one long-lived process: a JSON request a line on standard input, a JSON answer a line
 * on standard output, everything else that Hive prints on standard error.
 *
 * <p>Request: {"call": name, ...}. Answer: {"result": ...} or {"error": message, "trace": stack}.
 * Arguments: the home folder, then settings of Hive as key=value, which say where the metastore is.
 */
public final class Judge {
  /** One thing that can be asked of Hive. */
  interface Call {
    Object answer(JsonNode request) throws Exception;
  }

  private static final ObjectMapper JSON = new ObjectMapper();

  private final Map<String, Call> calls = new LinkedHashMap<>();

  private Judge(HiveSession hive) {
    calls.put("sql", request -> hive.sql(request.get("statement").asText()));
    calls.put("set", request -> hive.set(request.get("key").asText(), request.get("value").asText()));
    calls.put("read_acid", request -> new AcidReader(hive.conf()).read(request));
    calls.put("splits", request -> new AcidReader(hive.conf()).splits(request));
    calls.put("dump", request -> OrcDump.dump(request.get("file").asText()));
    calls.put("timezone", request -> timezone(request.get("zone").asText()));
    calls.put("compactor_pass", request -> Compat.compactorPass(hive.conf(), request.get("thread").asText()));
    calls.putAll(Compat.calls(hive.conf()));
  }

  public static void main(String[] args) {
    PrintStream answers = System.out;
    System.setOut(System.err);
    try {
      Path home = Path.of(args[0]).toAbsolutePath();
      Judge judge = new Judge(new HiveSession(home, settings(args)));
      answers.println(JSON.writeValueAsString(Map.of("result", "ready")));
      judge.serve(answers);
      System.exit(0);
    } catch (Throwable failure) {
      failure.printStackTrace();
      Runtime.getRuntime().halt(1);  // Hive's own threads would keep the process alive
    }
  }

  /** Of this process, as if it had been started there: what Hive and ORC keep of a zone lives as long as a statement. */
  private static Object timezone(String zone) {
    TimeZone.setDefault(TimeZone.getTimeZone(ZoneId.of(zone)));
    return null;
  }

  private static Map<String, String> settings(String[] args) {
    Map<String, String> settings = new LinkedHashMap<>();
    for (int i = 1; i < args.length; i++) {
      int at = args[i].indexOf('=');
      settings.put(args[i].substring(0, at), args[i].substring(at + 1));
    }
    return settings;
  }

  private void serve(PrintStream answers) throws Exception {
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      answers.write(JSON.writeValueAsBytes(answer(JSON.readTree(line))));
      answers.write('\n');
      answers.flush();
    }
  }

  private Map<String, Object> answer(JsonNode request) {
    Map<String, Object> answer = new LinkedHashMap<>();
    try {
      answer.put("result", calls.get(request.get("call").asText()).answer(request));
    } catch (Throwable failure) {  // an Error of one query must not take the judge down
      answer.put("error", messages(failure));
      answer.put("trace", trace(failure));
    }
    return answer;
  }

  private static String messages(Throwable failure) {
    StringBuilder text = new StringBuilder(String.valueOf(failure));
    for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause()) {
      text.append("\n  caused by ").append(cause);
    }
    return text.toString();
  }

  private static String trace(Throwable failure) {
    java.io.StringWriter text = new java.io.StringWriter();
    failure.printStackTrace(new java.io.PrintWriter(text));
    return text.toString();
  }
}
