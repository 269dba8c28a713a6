"""Names of TLS versions and cipher suites in flags, as kube-scheduler has them.

Source: component-base v0.36.3 cli/flag/ciphersuites_flag.go; Go crypto/tls CipherSuites,
InsecureCipherSuites.
Differs: TLS 1.0 and 1.1 are refused, and so are suites with RC4 and 3DES.
"""

from collections.abc import Sequence
from ssl import TLSVersion
from typing import Final

__all__ = ["CIPHER_SUITES", "VERSIONS", "ciphers", "version"]

VERSIONS: Final = {"VersionTLS12": TLSVersion.TLSv1_2, "VersionTLS13": TLSVersion.TLSv1_3}
_TOO_OLD: Final = ("VersionTLS10", "VersionTLS11")

#: Cipher suites of TLS 1.3: they are always enabled and cannot be configured, as in Go.
_TLS13: Final = (
    "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
)  # fmt: skip
#: The OpenSSL names of the cipher suites of TLS 1.2.
CIPHER_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
}


def version(name: str) -> TLSVersion:
    """Return the version for a value of `--tls-min-version`; an empty one means TLS 1.2.

    Raises:
        ValueError: There is no such version, or it is older than TLS 1.2.
    """
    if not name:
        return TLSVersion.TLSv1_2
    if name in _TOO_OLD:
        raise ValueError(f"{name} is not supported: the minimum is VersionTLS12")
    if name not in VERSIONS:
        raise ValueError(f"unknown tls version {name!r}; supported values: {', '.join(VERSIONS)}")
    return VERSIONS[name]


def ciphers(names: Sequence[str]) -> str:
    """Return the OpenSSL names of the suites of `--tls-cipher-suites`, joined by colons.

    Suites of TLS 1.3 are left out, so the result is empty if there are no others.

    Raises:
        ValueError: There is no such suite, or it is not supported.
    """
    unknown = [name for name in names if name not in CIPHER_SUITES and name not in _TLS13]
    if unknown:
        raise ValueError(f"cipher suite {unknown[0]} not supported or doesn't exist")
    return ":".join(dict.fromkeys(CIPHER_SUITES[name] for name in names if name not in _TLS13))
