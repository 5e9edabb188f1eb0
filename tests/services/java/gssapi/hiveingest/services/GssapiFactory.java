package hiveingest.services;

import java.util.Arrays;
import java.util.Map;
import javax.security.auth.callback.CallbackHandler;
import javax.security.sasl.SaslClient;
import javax.security.sasl.SaslClientFactory;
import javax.security.sasl.SaslException;
import javax.security.sasl.SaslServer;
import javax.security.sasl.SaslServerFactory;

/** Makes both sides of GSSAPI. */
public final class GssapiFactory implements SaslServerFactory, SaslClientFactory {
  @Override
  public SaslServer createSaslServer(String mechanism, String protocol, String serverName, Map<String, ?> properties,
      CallbackHandler handler) throws SaslException {
    return mechanism.equals("GSSAPI") ? new GssapiServer(protocol, serverName, properties, handler) : null;
  }

  @Override
  public SaslClient createSaslClient(String[] mechanisms, String authorizationId, String protocol, String serverName,
      Map<String, ?> properties, CallbackHandler handler) throws SaslException {
    boolean isWanted = Arrays.asList(mechanisms).contains("GSSAPI");
    return isWanted ? new GssapiClient(authorizationId, protocol, serverName, properties) : null;
  }

  @Override
  public String[] getMechanismNames(Map<String, ?> properties) {
    return new String[] {"GSSAPI"};
  }
}
