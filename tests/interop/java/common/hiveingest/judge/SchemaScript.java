package hiveingest.judge;

import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;

/** Runs the schema script of a metastore's distribution on a new Derby database. */
final class SchemaScript {
  private SchemaScript() {}

  static void run(String url, Path script) throws Exception {
    Class.forName("org.apache.derby.jdbc.EmbeddedDriver", true, Thread.currentThread().getContextClassLoader());
    try (Connection connection = DriverManager.getConnection(url);
        Statement statement = connection.createStatement()) {
      for (String sql : withoutComments(Files.readString(script)).split(";\\s*(\\n|$)")) {
        if (!sql.isBlank()) statement.execute(sql.trim());
      }
    }
  }

  private static String withoutComments(String sql) {
    return sql.replaceAll("(?s)/\\*.*?\\*/", "").replaceAll("(?m)^\\s*--.*$", "");
  }

  /** Leaves every database of this process complete on disk. */
  static void closeDatabases() throws SQLException {
    try {
      DriverManager.getConnection("jdbc:derby:;shutdown=true");
    } catch (SQLException stopped) {
      if (!"XJ015".equals(stopped.getSQLState())) throw stopped;  // Derby's way to say that all went well
    }
  }
}
