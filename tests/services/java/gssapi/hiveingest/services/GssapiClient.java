package hiveingest.services;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import javax.security.sasl.SaslClient;
import javax.security.sasl.SaslException;
import org.ietf.jgss.GSSContext;
import org.ietf.jgss.GSSException;

/** The side that has a ticket. */
final class GssapiClient extends GssapiSide implements SaslClient {
  private final byte[] user;

  GssapiClient(String user, String protocol, String host, Map<String, ?> properties) throws SaslException {
    super(properties);
    this.user = user == null ? new byte[0] : user.getBytes(StandardCharsets.UTF_8);
    try {
      context = manager.createContext(service(protocol, host), kerberos, null, GSSContext.INDEFINITE_LIFETIME);
      context.requestMutualAuth(true);
      context.requestInteg(true);
      context.requestConf(true);
    } catch (GSSException error) {
      throw new SaslException("no context for " + protocol + "/" + host, error);
    }
  }

  @Override
  public boolean hasInitialResponse() {
    return true;
  }

  @Override
  public byte[] evaluateChallenge(byte[] challenge) throws SaslException {
    try {
      if (!context.isEstablished()) {
        byte[] token = context.initSecContext(challenge, 0, challenge.length);
        return token == null ? new byte[0] : token;
      }
      byte[] offer = open(challenge);
      for (String each : layers) {
        if ((offer[0] & bit(each)) != 0) {
          use(each, offer);
          return message(bit(each), user);
        }
      }
      throw new SaslException("no layer of " + layers + " is offered: " + offer[0]);
    } catch (GSSException error) {
      throw new SaslException("GSS initiate failed", error);
    }
  }
}
