package hiveingest.judge;

import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hive.serde2.objectinspector.ListObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.MapObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.PrimitiveObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.StructField;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;

/**
 * One value of Hive as JSON that cannot be misread.
 *
 * <p>Boolean, integers, strings and null are themselves, an array is a list. All else is an object
 * with one key that names the type, so that a decoder needs no schema: {"double": "1.5"},
 * {"decimal": "1.50"}, {"binary": base64}, {"date": text}, {"timestamp": text}, {"struct": [[name, value], ...]},
 * {"map": [[key, value], ...]}.
 */
final class Cells {
  private Cells() {}

  static Object cell(Object value, ObjectInspector inspector) {
    if (value == null) return null;
    switch (inspector.getCategory()) {
      case PRIMITIVE:
        return primitive(value, (PrimitiveObjectInspector) inspector);
      case LIST:
        return list(value, (ListObjectInspector) inspector);
      case MAP:
        return map(value, (MapObjectInspector) inspector);
      case STRUCT:
        return struct(value, (StructObjectInspector) inspector);
      default:
        throw new IllegalArgumentException("no form for a value of type " + inspector.getTypeName());
    }
  }

  private static Object primitive(Object value, PrimitiveObjectInspector inspector) {
    Object java = inspector.getPrimitiveJavaObject(value);
    if (java == null) return null;
    switch (inspector.getPrimitiveCategory()) {
      case BOOLEAN:
      case BYTE:
      case SHORT:
      case INT:
      case LONG:
        return java;
      case STRING:
      case VARCHAR:
      case CHAR:
        return java.toString();
      case BINARY:
        return Map.of("binary", Base64.getEncoder().encodeToString((byte[]) java));
      case FLOAT:
        return Map.of("double", Double.toString((Float) java));  // exact: every float is a double
      default:
        return Map.of(inspector.getPrimitiveCategory().name().toLowerCase(), java.toString());
    }
  }

  private static Object list(Object value, ListObjectInspector inspector) {
    List<?> elements = inspector.getList(value);
    if (elements == null) return null;
    List<Object> cells = new ArrayList<>();
    for (Object element : elements) cells.add(cell(element, inspector.getListElementObjectInspector()));
    return cells;
  }

  private static Object map(Object value, MapObjectInspector inspector) {
    Map<?, ?> entries = inspector.getMap(value);
    if (entries == null) return null;
    List<Object> cells = new ArrayList<>();
    for (Map.Entry<?, ?> entry : entries.entrySet()) {
      cells.add(pair(
          cell(entry.getKey(), inspector.getMapKeyObjectInspector()),
          cell(entry.getValue(), inspector.getMapValueObjectInspector())));
    }
    return Map.of("map", cells);
  }

  private static Object struct(Object value, StructObjectInspector inspector) {
    List<Object> cells = new ArrayList<>();
    for (StructField field : inspector.getAllStructFieldRefs()) {
      Object data = inspector.getStructFieldData(value, field);
      cells.add(pair(field.getFieldName(), cell(data, field.getFieldObjectInspector())));
    }
    return Map.of("struct", cells);
  }

  private static List<Object> pair(Object first, Object second) {
    List<Object> pair = new ArrayList<>(2);  // List.of takes no null
    pair.add(first);
    pair.add(second);
    return pair;
  }
}
