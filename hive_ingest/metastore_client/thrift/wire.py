"""A connection to one server: TCP, optional TLS, optional SASL, Thrift's binary protocol."""

from __future__ import annotations

import select
import socket
import ssl
from typing import Any, Self

from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.protocol.cybin import ProtocolError
from thriftpy2.protocol.exc import TProtocolException
from thriftpy2.thrift import TClient, TException
from thriftpy2.transport import TCyBufferedTransportFactory, TSocket, TTransportException

from hive_ingest.errors import ConfigurationError, MetastoreError, MetastoreUnavailable
from hive_ingest.metastore_client.thrift.addresses import Address
from hive_ingest.metastore_client.thrift.failures import ConnectionClosed, NoResponse, server_error
from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.metastore_client.thrift.kerberos import Gssapi
from hive_ingest.metastore_client.thrift.options import ThriftOptions
from hive_ingest.metastore_client.thrift.sasl import FrameFailure, Mechanism, Plain, RefusedLogin, SaslTransport

#: A connection without responses to keep-alives for this long counts as broken, which ends a call in progress.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class Wire:
    """Sends calls and receives responses, one at a time."""

    def __init__(self, address: Address, connection: socket.socket, client: Any) -> None:
        self.address = address
        self._socket = connection
        self._client = client

    @classmethod
    def open(cls, address: Address, options: ThriftOptions, timeout_seconds: float) -> Self:
        """Connect. Raises MetastoreUnavailable, MetastoreError (authentication), ConfigurationError (TLS, Kerberos)."""
        try:
            return cls._open(address, options, timeout_seconds)
        except RefusedLogin:
            if options.authentication != "kerberos":
                raise
            # The ticket may have expired between our look at it and the server's. Another attempt gets a new one.
            return cls._open(address, options, timeout_seconds)

    @classmethod
    def _open(cls, address: Address, options: ThriftOptions, timeout_seconds: float) -> Self:
        connection = _connect(address, options, timeout_seconds)
        try:
            return cls(address, connection, _client(_transport(connection, address, options)))
        except (OSError, TTransportException) as error:
            connection.close()
            raise MetastoreUnavailable(
                f"{address} closed the connection during authentication: {error}. It may require another "
                "authentication, or TLS"
            ) from error
        except BaseException:
            connection.close()
            raise

    def call(self, name: str, arguments: tuple[Any, ...], timeout_seconds: float) -> Any:
        """Make a call and return the response. Raises the server's error, ConnectionClosed if the connection ended,
        NoResponse if none came in time or it cannot be read.

        After ConnectionClosed or NoResponse the wire is unusable: a late response would be taken for that of the next
        call.
        """
        self._socket.settimeout(timeout_seconds)
        try:
            return getattr(self._client, name)(*arguments)
        except TTransportException as error:
            raise ConnectionClosed(f"{self.address} closed the connection during {name}") from error
        except TimeoutError as error:
            raise NoResponse(f"{self.address} did not respond to {name} within {timeout_seconds:g} s") from error
        except OSError as error:
            raise ConnectionClosed(f"the connection to {self.address} broke during {name}: {error}") from error
        except (ProtocolError, TProtocolException) as error:
            raise NoResponse(f"the response of {self.address} to {name} is not Thrift: {error}") from error
        except FrameFailure as error:
            raise NoResponse(f"the connection to {self.address} failed during {name}: {error}") from error
        except TException as error:
            raise server_error(name, str(self.address), error) from error

    def is_stale(self) -> bool:
        """Whether the server has closed the connection since the last response: nothing else can be readable."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | select.POLLHUP | select.POLLERR)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close the socket without a shutdown: a forked child may close a connection that its parent still uses."""
        self._socket.close()


def _connect(address: Address, options: ThriftOptions, timeout_seconds: float) -> socket.socket:
    try:
        connection = socket.create_connection((address.host, address.port), timeout_seconds)
    except OSError as error:
        raise MetastoreUnavailable(f"{address} does not accept a connection: {error}") from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return _encrypt(connection, address, options) if options.use_ssl else connection


def _encrypt(connection: socket.socket, address: Address, options: ThriftOptions) -> socket.socket:
    try:
        context = ssl.create_default_context(cafile=options.ssl_ca_file or None)
    except (OSError, ssl.SSLError) as error:
        connection.close()
        raise ConfigurationError(f"ssl_ca_file={options.ssl_ca_file!r} cannot be read as PEM: {error}") from error
    try:
        return context.wrap_socket(connection, server_hostname=address.host)
    except ssl.SSLCertVerificationError as error:
        connection.close()
        raise MetastoreError(
            f"{address}: its certificate is not trusted ({error.verify_message}): name the authority's certificate "
            "in ssl_ca_file, and use the host name of the certificate in the URI"
        ) from error
    except OSError as error:
        connection.close()
        raise MetastoreUnavailable(f"{address}: the TLS handshake failed: {error}") from error


def _transport(connection: socket.socket, address: Address, options: ThriftOptions) -> Any:
    transport: Any = TSocket(sock=connection)
    mechanism = _mechanism(address, options)
    if mechanism is None:
        return transport
    secured = SaslTransport(transport, mechanism)
    secured.negotiate()
    return secured


def _client(transport: Any) -> Any:
    buffered = TCyBufferedTransportFactory().get_transport(transport)
    return TClient(idl().ThriftHiveMetastore, TCyBinaryProtocolFactory().get_protocol(buffered))


def _mechanism(address: Address, options: ThriftOptions) -> Mechanism | None:
    if options.authentication == "plain":
        return Plain(options.user, options.password)
    if options.authentication == "kerberos":
        return Gssapi(options.kerberos_principal, address.host)
    return None
