"""The flags of the live scheduler, as values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from ssl import TLSVersion
from typing import Self

from scheduler.config.settings import Settings
from scheduler.model.releases import Reference
from scheduler.observe.logs.logs import DEFAULT_VERBOSITY, Format
from scheduler.observe.server import tls_options
from scheduler.observe.server.listen import Listen

__all__ = ["ProcessOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """Everything that `run` needs."""

    settings: Settings
    #: Returns the same settings as another release of kube-scheduler has them; `None` where the
    #: release is fixed.
    settings_as: Callable[[Reference], Settings] | None = None
    #: Path of a kubeconfig; empty means the one in the settings, else the pod's ServiceAccount.
    kubeconfig: str = ""
    logging_format: Format = Format.JSON
    verbosity: int = DEFAULT_VERBOSITY
    bind_address: str = "0.0.0.0"
    #: 0 switches the pages off.
    secure_port: int = 10259
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    #: The oldest accepted protocol, and the names of the cipher suites up to TLS 1.2; without names
    #: OpenSSL chooses.
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    #: Paths that need no token; for all others the API server decides.
    open_paths: tuple[str, ...] = field(default=("/healthz", "/readyz", "/livez"))
    #: How long answers of the API server about callers are cached; 0 for no cache.
    token_cache_seconds: float = 10.0
    allowed_cache_seconds: float = 10.0
    denied_cache_seconds: float = 10.0
    #: The period of comparing the caches with the API server; 0 switches it off.
    compare_seconds: float = 900.0
    #: Evict all victims through the eviction API, so that no right to delete pods is needed.
    evict_only: bool = False
    #: Name of the Deployment that is to own lease and ledger; empty for none.
    owner_deployment: str = ""
    #: End the process when all API servers have another release than the one that is followed.
    restart_on_change: bool = False
    #: Only compare with these schedulers what this one would do; empty to schedule.
    shadow: tuple[str, ...] = ()
    #: All flags with the values in force, by name, as Go writes them.
    flags: Mapping[str, str] = field(default_factory=dict)
    #: Folder of the flight recorder; empty for no recording.
    recording_dir: str = ""
    #: The size of all its segments together, and how long they are kept, in seconds.
    recording_bytes: int = 64 * 1024 * 1024
    recording_retention: float = 86_400.0

    def decided_as(self, reference: Reference) -> Self:
        """Return the options with the settings of a release.

        Raises:
            ConfigError: The release does not know a setting of the file.
        """
        if self.settings_as is None or reference == self.settings.reference:
            return self
        return replace(self, settings=self.settings_as(reference))

    @property
    def listen(self) -> Listen:
        """Address, port and TLS options of the pages.

        Raises:
            ValueError: There is no such TLS version, or no such cipher suite.
        """
        ciphers = tls_options.ciphers(self.tls_cipher_suites)
        oldest = tls_options.version(self.tls_min_version)
        if self.tls_cipher_suites and not ciphers:
            oldest = TLSVersion.TLSv1_3  # all named suites belong to it
        return Listen(
            address=self.bind_address,
            port=self.secure_port,
            cert_file=self.tls_cert_file,
            key_file=self.tls_private_key_file,
            min_version=oldest,
            ciphers=ciphers,
        )
