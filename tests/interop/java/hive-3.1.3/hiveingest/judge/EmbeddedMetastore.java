package hiveingest.judge;

import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;

/** Lays an empty metastore into a new database of Derby. Arguments: its JDBC URL, and Hive's schema script. */
public final class EmbeddedMetastore {
  private EmbeddedMetastore() {}

  public static void main(String[] args) throws Exception {
    String script = Files.readString(Path.of(args[1])).replaceAll("(?s)/\\*.*?\\*/", "").replaceAll("(?m)^\\s*--.*$", "");
    Class.forName("org.apache.derby.jdbc.EmbeddedDriver");
    try (Connection connection = DriverManager.getConnection(args[0]);
        Statement statement = connection.createStatement()) {
      for (String sql : script.split(";\\s*(\\n|$)")) {
        if (!sql.isBlank()) statement.execute(sql.trim());
      }
    }
    close();
  }

  /** Leaves the database complete on disk. */
  private static void close() throws SQLException {
    try {
      DriverManager.getConnection("jdbc:derby:;shutdown=true");
    } catch (SQLException stopped) {
      if (!"XJ015".equals(stopped.getSQLState())) throw stopped;  // Derby's way to say that all went well
    }
  }
}
