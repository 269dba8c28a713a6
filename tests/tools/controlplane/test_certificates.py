"""The certificates of a control plane: who they name, and that both sides accept them."""

import datetime as dt
import ipaddress
import socket
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from deploy.tools.controlplane.certificates import Authority, Identity, service_account_keys


def test_a_client_certificate_carries_user_and_group():
    identity = Authority().client("jane", "dev")

    subject = x509.load_pem_x509_certificate(identity.certificate).subject

    names = {each.oid: each.value for each in subject}
    assert names[NameOID.COMMON_NAME] == "jane"
    assert names[NameOID.ORGANIZATION_NAME] == "dev"


def test_a_certificate_is_of_no_use_after_a_month():
    began = dt.datetime.now(dt.UTC)  # noqa: TID251 - OpenSSL compares with the real clock
    identity = Authority().client("jane")

    certificate = x509.load_pem_x509_certificate(identity.certificate)

    assert certificate.not_valid_before_utc < began
    assert certificate.not_valid_after_utc <= began + dt.timedelta(days=31)


def test_a_serving_certificate_names_hosts_and_addresses():
    identity = Authority().server(["localhost", "127.0.0.1"])

    names = (
        x509.load_pem_x509_certificate(identity.certificate)
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )

    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]


def test_the_service_account_keys_belong_together():
    private, public = service_account_keys()

    key = serialization.load_pem_private_key(private, password=None)

    assert key.public_key() == serialization.load_pem_public_key(public)


def test_server_and_client_accept_each_other_under_strict_verification(tmp_path):
    authority = Authority()
    serving = _load(ssl.PROTOCOL_TLS_SERVER, authority, authority.server(["localhost"]), tmp_path)
    serving.verify_mode = ssl.CERT_REQUIRED
    asking = _load(ssl.PROTOCOL_TLS_CLIENT, authority, authority.client("jane"), tmp_path)

    assert (("commonName", "jane"),) in _peer(serving, asking)["subject"]


def test_a_certificate_of_another_authority_is_refused(tmp_path):
    authority = Authority()
    other = Authority()
    serving = _load(ssl.PROTOCOL_TLS_SERVER, other, other.server(["localhost"]), tmp_path)
    asking = _load(ssl.PROTOCOL_TLS_CLIENT, authority, authority.client("jane"), tmp_path)

    with pytest.raises(ssl.SSLCertVerificationError):
        _peer(serving, asking)


def _load(protocol, authority: Authority, identity: Identity, folder) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=authority.certificate.decode())
    pem = folder / "identity.pem"
    pem.write_bytes(identity.certificate + identity.key)
    context.load_cert_chain(pem)
    return context


def _peer(serving: ssl.SSLContext, asking: ssl.SSLContext):
    """Let the two shake hands; return the client's certificate as the server sees it."""
    seen = []
    left, right = socket.socketpair()

    def serve():
        try:
            with serving.wrap_socket(left, server_side=True) as tls:
                seen.append(tls.getpeercert())
        except (ssl.SSLError, OSError):
            left.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with asking.wrap_socket(right, server_hostname="localhost") as tls:
            tls.recv(1)
    finally:
        right.close()
        thread.join()
    return seen[0]
