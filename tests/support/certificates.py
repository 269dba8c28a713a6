"""A certificate authority for tests, with one certificate for a server and one for a client."""

import shutil
from pathlib import Path

import trustme

__all__ = ["Authority"]


class Authority:
    """Writes `ca.crt` and `server.*`, `client.*` (`crt` and `key`) into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.certificate)
        for name in ("server", "client"):
            issued = authority.issue_cert("kubernetes", common_name=name)
            issued.cert_chain_pems[0].write_to_path(folder / f"{name}.crt")
            issued.private_key_pem.write_to_path(folder / f"{name}.key")

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
