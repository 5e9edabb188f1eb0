"""How a container of Azure Storage is reached: from `fs.azure.*` of Hadoop's `core-site.xml`, as Hive reads them.

What is not set there is taken from `AZURE_STORAGE_CONNECTION_STRING`, if it is of the account, and otherwise from where
Azure's client finds credentials: its environment variables, the managed identity of the machine or pod, `az login`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hive_ingest.errors import ConfigurationError, UnsupportedFeature
from hive_ingest.storage.hadoop_conf import core_site

_AUTHORITY: Final = re.compile(r"([^@]+)@(([^.@]+)\.(?:dfs|blob)\.([^@]+))")
_PREFIX: Final = "fs.azure."
_CONNECTION_STRING: Final = "AZURE_STORAGE_CONNECTION_STRING"
#: The part of `fs.azure.account.oauth2.client.endpoint` that names the tenant.
_TENANT: Final = re.compile(r"https?://[^/]+/([^/]+)/oauth2/")
_MIB: Final = 1 << 20
_DEFAULT_PART_BYTES: Final = 8 * _MIB


@dataclass(frozen=True, slots=True)
class AzureOptions:
    """Of one container.

    Attributes:
        account, container: Their names.
        endpoint: URL of the account's blobs.
        key: Of the account.
        sas_token: A shared access signature.
        tenant, client_id, client_secret: A service principal; `client_id` alone is that of a managed identity.
        connection_string: Of the account; it has its own endpoint and credentials.
        part_bytes: Size of the blocks in which files are uploaded.
    """

    account: str
    container: str
    endpoint: str
    key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    tenant: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    connection_string: str | None = field(default=None, repr=False)
    part_bytes: int = _DEFAULT_PART_BYTES

    @classmethod
    def of_authority(cls, authority: str) -> AzureOptions:
        """Those of `core-site.xml` and the environment, for the `container@account.…` of a location.

        `fs.azure.option.ACCOUNT.dfs.core.windows.net` takes precedence over `fs.azure.option`.

        Raises:
            ConfigurationError: The authority is not of this form, or the file cannot be read.
        """
        return cls.of_properties(core_site(), authority, os.environ)

    @classmethod
    def of_properties(
        cls, properties: Mapping[str, str], authority: str, environ: Mapping[str, str] | None = None
    ) -> AzureOptions:
        """Those of Hadoop's properties and of environment variables."""
        parsed = _AUTHORITY.fullmatch(authority)
        if parsed is None:
            raise ConfigurationError(
                f"'abfs://{authority}' names no container of an account: write "
                "'abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/path'"
            )
        container, host, account, domain = parsed.groups()

        def get(name: str) -> str | None:
            value = properties.get(f"{_PREFIX}{name}.{host}", properties.get(_PREFIX + name))
            return value.strip() or None if value is not None else None

        connection_string = (environ or {}).get(_CONNECTION_STRING, "")
        tenant = _TENANT.match(get("account.oauth2.client.endpoint") or "")
        return cls(
            account=account,
            container=container,
            endpoint=f"https://{account}.blob.{domain}",
            key=get("account.key"),
            sas_token=get("sas.fixed.token"),
            tenant=tenant[1] if tenant else get("account.oauth2.msi.tenant"),
            client_id=get("account.oauth2.client.id"),
            client_secret=get("account.oauth2.client.secret"),
            connection_string=connection_string if _is_of_account(connection_string, account) else None,
        )

    @property
    def credential(self) -> Any:
        """What Azure's client takes. Raises UnsupportedFeature if it is not installed."""
        if self.key or self.sas_token:
            return self.key or self.sas_token
        try:
            import azure.identity as identity
        except ImportError as error:
            raise UnsupportedFeature(
                f"the credentials of Azure's account {self.account!r} need azure-identity: install it (pip install "
                "'hive-ingest[azure]'), or set fs.azure.account.key in core-site.xml"
            ) from error
        if self.tenant and self.client_id and self.client_secret:
            return identity.ClientSecretCredential(self.tenant, self.client_id, self.client_secret)
        return identity.DefaultAzureCredential(managed_identity_client_id=self.client_id)


def _is_of_account(connection_string: str, account: str) -> bool:
    parts = dict(part.strip().partition("=")[::2] for part in connection_string.split(";") if part.strip())
    named = parts.get("AccountName", account if f"/{account}" in parts.get("BlobEndpoint", "") else "")
    return named == account
