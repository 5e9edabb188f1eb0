"""Listeners of a broker that ask for TLS, passwords and tokens, with certificates that are made for it."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.services.ports import free_port

#: By the listener's name, its protocol.
_PROTOCOLS = {"TLS": "SSL", "PLAIN": "SASL_SSL", "SCRAM": "SASL_SSL", "OAUTH": "SASL_SSL"}
_LOGIN = "org.apache.kafka.common.security"

_PROPERTIES = """\
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.tls.ssl.client.auth=required
listener.name.plain.sasl.enabled.mechanisms=PLAIN
listener.name.plain.plain.sasl.jaas.config={login}.plain.PlainLoginModule required user_{user}="{password}";
listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.scram.scram-sha-512.sasl.jaas.config={login}.scram.ScramLoginModule required;
listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.oauth.oauthbearer.sasl.jaas.config={login}.oauthbearer.OAuthBearerLoginModule required \
unsecuredLoginStringClaim_sub="broker";
"""


class BrokerSecurity:
    """What a secured broker accepts: one user with a password, a client's certificate, and unsigned tokens.

    Attributes:
        folder: Has `ca.pem`, and the client's `client.pem` and `client.key`, the key encrypted with the password.
        ports: By the listener's name: TLS, PLAIN, SCRAM, OAUTH.
    """

    user = "flights"
    password = "Tr0ub4dor&3"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {name: free_port() for name in _PROTOCOLS}
        folder.mkdir(parents=True, exist_ok=True)
        self._make_certificates()

    @property
    def listeners(self) -> str:
        """To append to the broker's own."""
        return "".join(f",{name}://127.0.0.1:{port}" for name, port in self.ports.items())

    @property
    def protocols(self) -> str:
        """To append to the broker's own."""
        return "".join(f",{name}:{protocol}" for name, protocol in _PROTOCOLS.items())

    def properties(self) -> str:
        """Lines for server.properties."""
        return _PROPERTIES.format(folder=self.folder, login=_LOGIN, user=self.user, password=self.password)

    def format_arguments(self) -> list[str]:
        """For the tool that formats the broker's storage: the user of SCRAM lives there."""
        return ["--add-scram", f"SCRAM-SHA-512=[name={self.user},password={self.password}]"]

    def bootstrap_servers(self, listener: str) -> str:
        """The address of one listener."""
        return f"127.0.0.1:{self.ports[listener]}"

    def token(self, *, seconds: float = 3600.0) -> str:
        """A token without a signature that is valid for so long."""
        now = time.time()
        parts: tuple[dict[str, object], ...] = (
            {"alg": "none"},
            {"sub": self.user, "iat": now - 60, "exp": now + seconds},
        )
        return "".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") + "." for part in parts)

    def _make_certificates(self) -> None:
        authority_key, broker_key, client_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        authority = _certificate("Test CA", authority_key.public_key(), "Test CA", authority_key, is_authority=True)
        broker = _certificate("localhost", broker_key.public_key(), "Test CA", authority_key)
        client = _certificate(self.user, client_key.public_key(), "Test CA", authority_key)
        encrypted = serialization.BestAvailableEncryption(self.password.encode())
        (self.folder / "ca.pem").write_bytes(_pem(authority))
        (self.folder / "broker.pem").write_bytes(_key(broker_key, serialization.NoEncryption()) + _pem(broker))
        (self.folder / "client.pem").write_bytes(_pem(client))
        (self.folder / "client.key").write_bytes(_key(client_key, encrypted))


def _certificate(
    name: str,
    key: ec.EllipticCurvePublicKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool = False,
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return builder.sign(issuer_key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key(key: ec.EllipticCurvePrivateKey, encryption: serialization.KeySerializationEncryption) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
