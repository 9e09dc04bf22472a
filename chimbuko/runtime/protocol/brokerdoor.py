"""The door by which processes of other nodes reach a broker of ours, over TLS with a certificate that is
pinned.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from chimbuko.runtime.process.lifetime import Sacrifice
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.process.starting import fork_then_load
from chimbuko.runtime.process.supervisor import ServiceGroup
from chimbuko.runtime.protocol import tlsdoor
from chimbuko.runtime.protocol.broker import free_port

# Certificates that are pinned: who connects knows which certificate it must find, and no authority.


_FIRST_DAY, _LAST_DAY = datetime.datetime(2000, 1, 1), datetime.datetime(2100, 1, 1)
"""Days between which certificates hold, whatever the clocks of nodes say: they end with their key."""


@dataclass(frozen=True)
class Certificate:
    """A certificate with its private key, both as PEM."""

    text: str
    key: str


def new_certificate(address: str) -> Certificate:
    """Make a certificate that signs itself, of what listens at an IP address."""
    # It is loaded here, as it takes 50 ms, and only services of runs on many nodes need it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Chimbuko")])
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign"), False
    )
    usage |= dict.fromkeys(("encipher_only", "decipher_only"), False)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(_FIRST_DAY)
        .not_valid_after(_LAST_DAY)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, **usage), True)
        .add_extension(own, False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Certificate(certificate.public_bytes(Encoding.PEM).decode(), secret.decode())


class BrokerDoor:
    """Keeper of the door, with a certificate that is made for it, and is known to who has its URL.

    Parameters
    ----------
    address, port
        Where it listens; port 0 for any that is free.

    Raises
    ------
    ConfigError
        This node has no such address.
    """

    def __init__(self, logs: Path, address: str, port: int) -> None:
        self._logs = logs
        free_port(address)
        self._address = address
        self._port = port
        self._certificate = new_certificate(address)
        self._service: Service | None = None
        self._inside = ""

    @property
    def is_running(self) -> bool:
        """Whether it can be used."""
        return self._service is not None and self._service.is_running

    @property
    def pid(self) -> int:
        """Id of its process; 0 while it is closed."""
        return self._service.process.pid if self._service else 0

    @property
    def url(self) -> str:
        """URL of the broker for who comes by the door. It contains the certificate that has to be there."""
        name, password = urlsplit(self._inside).username, urlsplit(self._inside).password
        pinned = quote(self._certificate.text, safe="")
        return f"rediss://{name}:{password}@{self._address}:{self._port}/0?ssl_ca_data={pinned}"

    def leads_to(self, inside: str) -> bool:
        """Return whether it was opened to the broker with this URL, of which the password is a part."""
        return self._inside == inside

    def open(self, inside: str) -> None:
        """Open it, again if needed, at the same port.

        Parameters
        ----------
        inside
            URL of the broker for processes of this node.

        Raises
        ------
        ServiceError
            It cannot listen there.
        """
        self.close()
        self._inside = inside
        parts = urlsplit(inside)
        target = parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port}"
        words = ["--address", self._address, "--port", str(self._port), "--target", target]
        secrets = {tlsdoor.CERTIFICATE_VARIABLE: self._certificate.text + self._certificate.key}
        self._service = Service(
            "door",
            tlsdoor.__name__,
            words,
            secrets,
            self._logs,
            sacrifice=Sacrifice.BROKER,
            start=fork_then_load,
        )
        # Where it is killed before it is ready, it is started again.
        group = ServiceGroup([])
        group.add(self._service, can_go_on=True)
        (facts,) = group.wait_ready()
        self._port = facts["port"]

    def close(self) -> None:
        """Close it; its connections end."""
        if self._service is not None:
            self._service.stop(0.0)
            self._service = None
