"""Certificates that are pinned: who connects knows which certificate it must find, and no authority."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass

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
