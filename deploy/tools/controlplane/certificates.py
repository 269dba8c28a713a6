"""Certificates and keys of a control plane.

One authority signs the serving certificates and all client certificates. Kubernetes takes the user
name from the common name of a client certificate, and the group from its organisation.
"""

import datetime as dt
from collections.abc import Iterable
from typing import NamedTuple

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

#: Longer than any test run, so short that a forgotten kubeconfig is of no use.
VALIDITY = dt.timedelta(days=30)

#: Go refuses a certificate without any name.
CLIENT_NAME = "client.invalid"


class Identity(NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority; its own certificate is `certificate` (PEM)."""

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self.certificate = self._authority.cert_pem.bytes()

    def server(self, hosts: Iterable[str]) -> Identity:
        """Issue a serving certificate for these host names and IP addresses."""
        return self._issue(*hosts)

    def client(self, user: str, group: str | None = None) -> Identity:
        """Issue a client certificate for a Kubernetes user in a group.

        Without one, its only group is the name of the library, which has no permissions.
        """
        return self._issue(CLIENT_NAME, common_name=user, organization_name=group)

    def _issue(
        self, *names: str, common_name: str | None = None, organization_name: str | None = None
    ) -> Identity:
        issued = self._authority.issue_cert(
            *names,
            common_name=common_name,
            organization_name=organization_name,
            not_after=dt.datetime.now(dt.UTC) + VALIDITY,
        )
        (certificate,) = issued.cert_chain_pems
        return Identity(certificate.bytes(), issued.private_key_pem.bytes())


def service_account_keys() -> tuple[bytes, bytes]:
    """Make the key pair that signs ServiceAccount tokens: private and public, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private, public
