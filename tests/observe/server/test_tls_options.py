"""Names of TLS versions and cipher suites."""

import ssl

import pytest

from scheduler.observe.server import tls_options


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("", ssl.TLSVersion.TLSv1_2),
        ("VersionTLS12", ssl.TLSVersion.TLSv1_2),
        ("VersionTLS13", ssl.TLSVersion.TLSv1_3),
    ],
)
def test_versions_have_the_names_of_kube_scheduler(name, want):
    assert tls_options.version(name) is want


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("VersionTLS10", "the minimum is VersionTLS12"),
        ("VersionTLS11", "the minimum is VersionTLS12"),
        ("TLS1.2", "unknown tls version 'TLS1.2'"),
        ("versiontls12", "unknown tls version"),
    ],
)
def test_other_versions_are_refused(name, problem):
    with pytest.raises(ValueError, match=problem):
        tls_options.version(name)


def test_suites_have_openssl_names_and_exclude_those_of_tls_1_3():
    names = [
        "TLS_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    ]

    found = tls_options.ciphers(names)

    assert found == "ECDHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES256-GCM-SHA384"
    assert tls_options.ciphers(names[:1]) == ""
    assert tls_options.ciphers([]) == ""


@pytest.mark.parametrize(
    "name", ["TLS_RSA_WITH_RC4_128_SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA", "AES128-SHA", "all"]
)
def test_other_suites_are_refused(name):
    with pytest.raises(ValueError, match=f"cipher suite {name} not supported"):
        tls_options.ciphers(["TLS_AES_128_GCM_SHA256", name])
