package hiveingest.services;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.sasl.AuthorizeCallback;
import javax.security.sasl.SaslException;
import javax.security.sasl.SaslServer;
import org.ietf.jgss.GSSCredential;

/** The side that accepts a ticket. */
final class GssapiServer extends GssapiSide implements SaslServer {
  private final CallbackHandler handler;
  private boolean hasOffered;
  private String user;

  GssapiServer(String protocol, String host, Map<String, ?> properties, CallbackHandler handler) throws SaslException {
    super(properties);
    this.handler = handler;
    try {
      context = manager.createContext(manager.createCredential(
          service(protocol, host), GSSCredential.INDEFINITE_LIFETIME, kerberos, GSSCredential.ACCEPT_ONLY));
    } catch (Exception error) {
      throw new SaslException("no key of " + protocol + "/" + host, error);
    }
  }

  @Override
  public byte[] evaluateResponse(byte[] response) throws SaslException {
    try {
      if (!context.isEstablished()) {
        byte[] token = context.acceptSecContext(response, 0, response.length);
        if (!context.isEstablished() || token != null) {
          return token;
        }
      }
      if (!hasOffered) {
        hasOffered = true;
        int offered = 0;
        for (String each : layers) {
          offered |= bit(each);
        }
        return message(offered, new byte[0]);
      }
      finish(open(response));
      return null;
    } catch (SaslException error) {
      throw error;
    } catch (Exception error) {
      throw new SaslException("GSS initiate failed", error);
    }
  }

  private void finish(byte[] choice) throws Exception {
    String chosen = null;
    for (String each : layers) {
      if (choice[0] == bit(each)) {
        chosen = each;
      }
    }
    if (chosen == null) {
      throw new SaslException("a layer was chosen that was not offered: " + choice[0]);
    }
    String client = context.getSrcName().toString();
    String named = new String(choice, 4, choice.length - 4, StandardCharsets.UTF_8);
    AuthorizeCallback callback = new AuthorizeCallback(client, named.isEmpty() ? client : named);
    handler.handle(new Callback[] {callback});
    if (!callback.isAuthorized()) {
      throw new SaslException(client + " is not authorized to be " + named);
    }
    user = callback.getAuthorizedID();
    use(chosen, choice);
  }

  @Override
  public String getAuthorizationID() {
    return user;
  }
}
