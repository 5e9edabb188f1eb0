package hiveingest.services;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslException;
import org.ietf.jgss.GSSContext;
import org.ietf.jgss.GSSException;
import org.ietf.jgss.GSSManager;
import org.ietf.jgss.GSSName;
import org.ietf.jgss.MessageProp;
import org.ietf.jgss.Oid;

/** What both sides of RFC 4752 share: the context and its security layer. */
abstract class GssapiSide {
  static final int MAX_BYTES = 65536;
  private static final List<String> LAYERS = List.of("auth", "auth-int", "auth-conf");

  final GSSManager manager = GSSManager.getInstance();
  final Oid kerberos;
  /** The layers that are allowed, the preferred one first. */
  final List<String> layers = new ArrayList<>();
  GSSContext context;
  private String layer;
  private int maxSent;

  GssapiSide(Map<String, ?> properties) throws SaslException {
    Object wanted = properties == null ? null : properties.get(Sasl.QOP);
    layers.addAll(List.of((wanted == null ? "auth" : (String) wanted).split("\\s*,\\s*")));
    try {
      kerberos = new Oid("1.2.840.113554.1.2.2");
    } catch (GSSException error) {
      throw new SaslException("no Kerberos", error);
    }
  }

  GSSName service(String protocol, String host) throws GSSException {
    return manager.createName(protocol + "@" + host, GSSName.NT_HOSTBASED_SERVICE, kerberos);
  }

  static byte bit(String layer) {
    return (byte) (1 << LAYERS.indexOf(layer));
  }

  /** A layer, or all of them, with the size of the messages that this side accepts. */
  byte[] message(int bits, byte[] rest) throws GSSException {
    byte[] text = new byte[4 + rest.length];
    text[0] = (byte) bits;
    text[1] = (byte) (MAX_BYTES >> 16);
    text[2] = (byte) (MAX_BYTES >> 8);
    text[3] = (byte) MAX_BYTES;
    System.arraycopy(rest, 0, text, 4, rest.length);
    return context.wrap(text, 0, text.length, new MessageProp(0, false));
  }

  byte[] open(byte[] message) throws GSSException {
    return context.unwrap(message, 0, message.length, new MessageProp(0, false));
  }

  void use(String chosen, byte[] text) throws GSSException {
    layer = chosen;
    int size = (text[1] & 0xff) << 16 | (text[2] & 0xff) << 8 | (text[3] & 0xff);
    maxSent = chosen.equals("auth") ? 0 : context.getWrapSizeLimit(0, chosen.equals("auth-conf"), size);
  }

  public String getMechanismName() {
    return "GSSAPI";
  }

  public boolean isComplete() {
    return layer != null;
  }

  public byte[] wrap(byte[] data, int offset, int length) throws SaslException {
    try {
      return context.wrap(data, offset, length, new MessageProp(0, layer.equals("auth-conf")));
    } catch (GSSException error) {
      throw new SaslException("cannot wrap", error);
    }
  }

  public byte[] unwrap(byte[] data, int offset, int length) throws SaslException {
    try {
      return context.unwrap(data, offset, length, new MessageProp(0, false));
    } catch (GSSException error) {
      throw new SaslException("cannot unwrap", error);
    }
  }

  public Object getNegotiatedProperty(String name) {
    switch (name) {
      case Sasl.QOP:
        return layer;
      case Sasl.MAX_BUFFER:
        return Integer.toString(MAX_BYTES);
      case Sasl.RAW_SEND_SIZE:
        return Integer.toString(maxSent);
      default:
        return null;
    }
  }

  public void dispose() throws SaslException {
    try {
      if (context != null) {
        context.dispose();
      }
    } catch (GSSException error) {
      throw new SaslException("cannot dispose", error);
    }
  }
}
