package hiveingest.services;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kerby.kerberos.kerb.server.KdcConfigKey;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/**
 * A key distribution centre, which obeys one command a line and ends with its standard input.
 *
 * Arguments: a folder, the realm, and a port for TCP.
 */
public final class Kdc {
  private Kdc() {}

  public static void main(String[] arguments) throws Exception {
    SimpleKdcServer kdc = new SimpleKdcServer();
    kdc.setWorkDir(new File(arguments[0]));
    kdc.setKdcRealm(arguments[1]);
    kdc.setKdcHost("localhost");
    kdc.setAllowTcp(true);
    kdc.setAllowUdp(false);
    kdc.setKdcTcpPort(Integer.parseInt(arguments[2]));
    kdc.getKdcConfig().setBoolean(KdcConfigKey.PREAUTH_REQUIRED, false);
    kdc.getKdcConfig().setLong(KdcConfigKey.MINIMUM_TICKET_LIFETIME, 0L);
    kdc.init();
    kdc.start();
    answer("UP");
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      try {
        obey(kdc, line.split(" "));
        answer("DONE");
      } catch (Exception error) {
        answer("FAILED " + error);
      }
    }
    Runtime.getRuntime().halt(0);
  }

  private static void obey(SimpleKdcServer kdc, String[] words) throws Exception {
    switch (words[0]) {
      case "keytab":  // a file, and the principals whose new keys it takes
        for (int i = 2; i < words.length; i++) {
          kdc.createPrincipal(words[i]);
          kdc.exportPrincipal(words[i], new File(words[1]));
        }
        break;
      case "rekey":  // a file, and the principals who lose their old keys
        for (int i = 2; i < words.length; i++) {
          kdc.deletePrincipal(words[i]);
          kdc.createPrincipal(words[i]);
          kdc.exportPrincipal(words[i], new File(words[1]));
        }
        break;
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  private static void answer(String text) {
    System.out.println(text);
    System.out.flush();
  }
}
