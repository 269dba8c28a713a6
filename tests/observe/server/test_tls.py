import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from scheduler.observe.server.tls import CertificateFiles, SelfSigned, validity
from scheduler.service.clock import Clock

NOW = Clock().wall()
TODAY = datetime.fromtimestamp(NOW, UTC)


def handshake(server_context: ssl.SSLContext, client_context: ssl.SSLContext) -> ssl.SSLObject:
    """Let two ends shake hands in memory; return the client's."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname="localhost")
    waiting = [client, server]
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return client


def trusting_anybody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def served(context: ssl.SSLContext) -> x509.Certificate:
    der = handshake(context, trusting_anybody()).getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der)


def common_name(certificate: x509.Certificate) -> object:
    return certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value


def test_a_self_signed_certificate_names_the_host_and_is_valid_for_a_year():
    certificate = served(SelfSigned(("scheduler-0", "localhost", "10.0.0.7"), NOW).context)

    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["scheduler-0", "localhost"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]
    assert certificate.not_valid_before_utc < TODAY
    assert timedelta(days=364) < certificate.not_valid_after_utc - TODAY < timedelta(days=366)


def test_old_protocols_are_refused():
    client = trusting_anybody()
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        client.maximum_version = ssl.TLSVersion.TLSv1_1

    with pytest.raises(ssl.SSLError):
        handshake(SelfSigned(("localhost",), NOW).context, client)


def test_a_self_signed_certificate_is_replaced_long_before_it_ends():
    certificate = SelfSigned(("localhost",), NOW)
    first = served(certificate.context)
    day = timedelta(days=1).total_seconds()

    early = certificate.refresh(NOW + 200 * day)
    late = certificate.refresh(NOW + 300 * day)
    second = served(certificate.context)

    assert (early, late) == (False, True)
    assert second.public_key() != first.public_key()
    assert second.not_valid_after_utc - TODAY > timedelta(days=660)
    assert not certificate.refresh(NOW + 400 * day)


def test_the_oldest_version_can_be_chosen():
    context = SelfSigned(("localhost",), NOW, ssl.TLSVersion.TLSv1_3).context
    client = trusting_anybody()
    client.maximum_version = ssl.TLSVersion.TLSv1_2

    with pytest.raises(ssl.SSLError):
        handshake(context, client)
    assert handshake(context, trusting_anybody()).version() == "TLSv1.3"


def test_cipher_suites_can_be_chosen():
    suite = "ECDHE-ECDSA-AES256-GCM-SHA384"
    context = SelfSigned(("localhost",), NOW, ciphers=suite).context
    client = trusting_anybody()
    client.maximum_version = ssl.TLSVersion.TLSv1_2

    used = handshake(context, client).cipher()
    client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")

    assert used is not None
    assert used[0] == suite
    with pytest.raises(ssl.SSLError):
        handshake(context, client)


def test_certificates_are_read_from_files(tmp_path, write_pair):
    files = CertificateFiles(*write_pair(tmp_path, "first"))

    assert common_name(served(files.context)) == "first"
    assert not files.refresh(NOW)


def test_a_new_certificate_is_served_after_a_refresh(tmp_path, write_pair):
    files = CertificateFiles(*write_pair(tmp_path, "first"))
    write_pair(tmp_path, "second")

    refreshed = files.refresh(NOW)

    assert refreshed
    assert common_name(served(files.context)) == "second"


def test_the_old_certificate_is_kept_when_the_new_one_is_unreadable(tmp_path, write_pair):
    cert_file, key_file = write_pair(tmp_path, "first")
    files = CertificateFiles(cert_file, key_file)
    Path(cert_file).write_text("half")

    with pytest.raises(OSError, match="PEM"):
        files.refresh(NOW)

    assert common_name(served(files.context)) == "first"


def test_the_old_pair_is_kept_until_the_key_of_a_new_certificate_exists(tmp_path, write_pair):
    cert_file, key_file = write_pair(tmp_path, "first")
    old_key = Path(key_file).read_bytes()
    files = CertificateFiles(cert_file, key_file)
    write_pair(tmp_path, "second")
    Path(key_file).write_bytes(old_key)

    with pytest.raises(OSError, match="MISMATCH"):
        files.refresh(NOW)

    assert common_name(served(files.context)) == "first"


def test_a_chain_is_valid_as_long_as_all_of_it():
    day = timedelta(days=1).total_seconds()
    short = SelfSigned(("localhost",), NOW - 300 * day).pem
    long = SelfSigned(("localhost",), NOW).pem

    start, end = validity(short + b"\n" + long)

    assert start == pytest.approx(NOW - 3600, abs=1)
    assert end == pytest.approx(NOW + 65 * day, abs=1)
