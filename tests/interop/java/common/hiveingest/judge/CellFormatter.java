package hiveingest.judge;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.serde2.FetchFormatter;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.StructField;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;

/** Takes the rows of a query before Hive turns them into tab separated text, which is ambiguous. */
public final class CellFormatter implements FetchFormatter<List<Object>> {
  @Override
  public void initialize(Configuration conf, Properties properties) {}

  @Override
  public List<Object> convert(Object row, ObjectInspector inspector) {
    return cells(row, (StructObjectInspector) inspector);
  }

  @Override
  public void close() {}

  static List<Object> cells(Object row, StructObjectInspector inspector) {
    List<Object> cells = new ArrayList<>();
    for (StructField field : inspector.getAllStructFieldRefs()) {
      cells.add(Cells.cell(inspector.getStructFieldData(row, field), field.getFieldObjectInspector()));
    }
    return cells;
  }
}
