"""Kerberos through the system's GSSAPI library, without a package to compile."""

from hive_ingest.kerberos.gssapi import GssError, SecurityContext

__all__ = ["GssError", "SecurityContext"]
