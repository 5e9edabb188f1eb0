"""Kerberos through the system's GSSAPI library, without a package to compile."""

from hive_ingest.kerberos.gssapi import GssError, SecurityContext
from hive_ingest.kerberos.login import log_in, ticket_remedy

__all__ = ["GssError", "SecurityContext", "log_in", "ticket_remedy"]
