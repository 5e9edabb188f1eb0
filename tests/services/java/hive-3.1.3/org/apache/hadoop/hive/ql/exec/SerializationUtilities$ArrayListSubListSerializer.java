package org.apache.hadoop.hive.ql.exec;

import java.util.ArrayList;
import java.util.List;
import org.apache.hive.com.esotericsoftware.kryo.Kryo;
import org.apache.hive.com.esotericsoftware.kryo.Serializer;
import org.apache.hive.com.esotericsoftware.kryo.io.Input;
import org.apache.hive.com.esotericsoftware.kryo.io.Output;

/**
 * Stands before Hive 3.1.3's class of this name, which reads a private field that java.util.ArrayList lost
 * after Java 8. A sub-list in a query plan is written and read as a list of its own.
 */
class SerializationUtilities$ArrayListSubListSerializer extends Serializer<List<?>> {
  @Override
  public void write(Kryo kryo, Output output, List<?> list) {
    output.writeInt(list.size(), true);
    for (Object element : list) kryo.writeClassAndObject(output, element);
  }

  @Override
  public List<?> read(Kryo kryo, Input input, Class<List<?>> type) {
    int size = input.readInt(true);
    List<Object> list = new ArrayList<>(size);
    kryo.reference(list);
    for (int i = 0; i < size; i++) list.add(kryo.readClassAndObject(input));
    return list;
  }

  @Override
  public List<?> copy(Kryo kryo, List<?> original) {
    kryo.reference(original);
    return new ArrayList<>(original);
  }
}
