"""A certificate authority for tests, with one certificate for a server and one for a client."""

import datetime
import shutil
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Authority"]

Key = ec.EllipticCurvePrivateKey
BEGIN = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
END = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)


class Authority:
    """Writes `ca.crt` and `server.*`, `client.*` (`crt` and `key`) into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority")
        self._write("ca.crt", self._sign(self._name, self._key, authority=True))
        for name in ("server", "client"):
            key = ec.generate_private_key(ec.SECP256R1())
            self._write(f"{name}.crt", self._sign(_name(name), key, authority=False))
            self._write(
                f"{name}.key",
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                ),
            )

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def client_certificate(self) -> Path:
        return self.folder / "client.crt"

    @property
    def client_key(self) -> Path:
        return self.folder / "client.key"

    def copy_to(self, folder: Path) -> None:
        """Put everything into another folder."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)

    def _sign(self, subject: x509.Name, key: Key, *, authority: bool) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(BEGIN)
            .not_valid_after(END)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName("kubernetes")]), critical=False
            )
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM)

    def _write(self, name: str, content: bytes) -> None:
        (self.folder / name).write_bytes(content)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
