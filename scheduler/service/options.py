"""What the live scheduler is told beside its configuration: flags, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ssl import TLSVersion

from scheduler.config.settings import Settings
from scheduler.observe.logs.logs import DEFAULT_VERBOSITY, Format
from scheduler.observe.server import tls_options
from scheduler.observe.server.listen import Listen

__all__ = ["ProcessOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """Everything that `run` needs."""

    settings: Settings
    #: Path of a kubeconfig; empty means the one in the settings, else the pod's ServiceAccount.
    kubeconfig: str = ""
    logging_format: Format = Format.JSON
    verbosity: int = DEFAULT_VERBOSITY
    bind_address: str = "0.0.0.0"
    #: 0 switches serving off.
    secure_port: int = 10259
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    #: The oldest protocol that is spoken, and the names of the cipher suites up to TLS 1.2; without
    #: names the choice is OpenSSL's.
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    #: Pages that anybody may read; for all others the API server has the say.
    open_paths: tuple[str, ...] = field(default=("/healthz", "/readyz", "/livez"))
    #: For how long answers of the API server about callers hold; 0 means not at all.
    token_cache_seconds: float = 10.0
    allowed_cache_seconds: float = 10.0
    denied_cache_seconds: float = 10.0
    #: How often all that is known is compared with the API server; 0 switches it off.
    compare_seconds: float = 900.0
    #: Have the API server evict all victims, so that no right to delete pods is needed.
    evict_only: bool = False
    #: All flags with the values in force, by name, as Go writes them.
    flags: Mapping[str, str] = field(default_factory=dict)
    #: File to which everything is captured for a replay; empty for none.
    capture: str = ""

    @property
    def listen(self) -> Listen:
        """Where and how pages are served.

        Raises:
            ValueError: There is no such TLS version, or no such cipher suite.
        """
        ciphers = tls_options.ciphers(self.tls_cipher_suites)
        oldest = tls_options.version(self.tls_min_version)
        if self.tls_cipher_suites and not ciphers:
            oldest = TLSVersion.TLSv1_3  # all that were named belong to it
        return Listen(
            address=self.bind_address,
            port=self.secure_port,
            cert_file=self.tls_cert_file,
            key_file=self.tls_private_key_file,
            min_version=oldest,
            ciphers=ciphers,
        )
