package hiveingest.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.serde2.AbstractSerDe;
import org.apache.hadoop.hive.serde2.JsonSerDe;
import org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspectorUtils;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspectorUtils.ObjectInspectorCopyOption;
import org.apache.hadoop.hive.serde2.objectinspector.StructField;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;
import org.apache.hadoop.io.Text;

/**
 * What Hive's SerDes make of a record, and the bucket hash of its columns.
 *
 * <p>A request is a line of JSON on standard input: {"serde": "json" or "text", "types": [...], "record": text}; the
 * columns are c0, c1, … The answer is a line: {"values": [...], "hash": number}, or {"error": name of the exception}.
 */
public final class SerDeValues {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Map<String, AbstractSerDe> serdes = new LinkedHashMap<>();

  private SerDeValues() {}

  public static void main(String[] args) throws Exception {
    PrintStream answers = System.out;
    System.setOut(System.err);
    SerDeValues values = new SerDeValues();
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      answers.write(JSON.writeValueAsBytes(values.answer(JSON.readTree(line))));
      answers.write('\n');
    }
    answers.flush();
    System.exit(0);
  }

  private Map<String, Object> answer(JsonNode request) throws Exception {
    Map<String, Object> answer = new LinkedHashMap<>();
    AbstractSerDe serde = serde(request);
    try {
      Object row = serde.deserialize(new Text(request.get("record").asText()));
      StructObjectInspector inspector = (StructObjectInspector) serde.getObjectInspector();
      answer.put("values", CellFormatter.cells(row, inspector));
      answer.put("hash", hash(row, inspector));
    } catch (Exception failure) {
      answer.clear();
      answer.put("error", failure.getClass().getSimpleName());
    }
    return answer;
  }

  private static int hash(Object row, StructObjectInspector inspector) {
    int count = inspector.getAllStructFieldRefs().size();
    Object[] values = new Object[count];
    ObjectInspector[] inspectors = new ObjectInspector[count];
    for (int i = 0; i < count; i++) {
      StructField field = inspector.getAllStructFieldRefs().get(i);
      ObjectInspector lazy = field.getFieldObjectInspector();
      Object value = inspector.getStructFieldData(row, field);
      values[i] = ObjectInspectorUtils.copyToStandardObject(value, lazy, ObjectInspectorCopyOption.WRITABLE);
      inspectors[i] = ObjectInspectorUtils.getStandardObjectInspector(lazy, ObjectInspectorCopyOption.WRITABLE);
    }
    return ObjectInspectorUtils.getBucketHashCode(values, inspectors);
  }

  private AbstractSerDe serde(JsonNode request) throws Exception {
    String key = request.get("serde").asText() + request.get("types");
    AbstractSerDe serde = serdes.get(key);
    if (serde == null) {
      serde = request.get("serde").asText().equals("json") ? new JsonSerDe() : new LazySimpleSerDe();
      serde.initialize(new Configuration(), properties(request.get("types")), null);
      serdes.put(key, serde);
    }
    return serde;
  }

  private static Properties properties(JsonNode types) {
    StringBuilder names = new StringBuilder();
    StringBuilder texts = new StringBuilder();
    for (int i = 0; i < types.size(); i++) {
      names.append(i == 0 ? "" : ",").append("c").append(i);
      texts.append(i == 0 ? "" : ":").append(types.get(i).asText());
    }
    Properties properties = new Properties();
    properties.setProperty("columns", names.toString());
    properties.setProperty("columns.types", texts.toString());
    return properties;
  }
}
