"""Certificates of a control plane that lives for an afternoon.

One authority signs the API server's serving certificate and every client certificate. The user name
of a client is the common name of its certificate, its groups are the organisations, as Kubernetes
reads them. All keys are P-256: quick to make. The extensions are those that Python's strict
verification asks for.
"""

import datetime as dt
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: Certificates begin a little in the past, for clocks that were set back.
BACKDATED = dt.timedelta(minutes=5)

#: Far longer than a test run, short enough that a forgotten kubeconfig is of no use.
VALIDITY = dt.timedelta(days=30)


@dataclass(frozen=True)
class Identity:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates; its own is `certificate` (PEM).

    Args:
        now: when the authority is made; every certificate is valid around it.
    """

    def __init__(self, now: dt.datetime) -> None:
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "local-control-plane-ca")])
        builder = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
        )
        self.certificate = _pem(builder.sign(self._key, hashes.SHA256()))

    def server(self, common_name: str, hosts: Iterable[str]) -> Identity:
        """Issue a serving certificate for these host names and IP addresses."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, user: str, groups: Iterable[str] = ()) -> Identity:
        """Issue a client certificate for a Kubernetes user and its groups."""
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
            + [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        )
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None = None,
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            self._builder(subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return Identity(_pem(builder.sign(self._key, hashes.SHA256())), _private_pem(key))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - BACKDATED)
            .not_valid_after(self._now + VALIDITY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        )


def service_account_keys() -> tuple[bytes, bytes]:
    """Make the key pair that signs ServiceAccount tokens: private and public, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return _private_pem(key), public


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # SEC1 ("EC PRIVATE KEY"): every Kubernetes component reads it.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
