"""`preemptive-scheduler run`: schedule the pods of a cluster that name one of our profiles."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.cli import configuration, importing
from scheduler.config import durations, load
from scheduler.config.field_errors import ConfigError
from scheduler.config.load import DeprecatedFlags, LeaderElectionFlags
from scheduler.config.settings import Settings
from scheduler.config.shadow import NamesError, shadowing
from scheduler.model.releases import AUTO, NEWEST, OLDEST, REFERENCES, Reference
from scheduler.service import signals

if TYPE_CHECKING:
    from scheduler.service.clock import Clock
    from scheduler.service.options import ProcessOptions

__all__ = ["add_parser", "options", "run", "settings"]

DESCRIPTION = """\
Schedule the pods whose spec.schedulerName is one of the configured profiles; without a
configuration file that is preemptive-scheduler. Flags have kube-scheduler's names and meanings.
Without a kubeconfig the ServiceAccount of the pod is used. The environment variable KUBECONFIG is
ignored.
"""
EXAMPLES = """\
examples:
  preemptive-scheduler run --kubeconfig ~/.kube/config --leader-elect=false
      run it on this machine against a cluster
  preemptive-scheduler run --config config.yaml --logging-format text -v 4
      use a KubeSchedulerConfiguration and log every write to the API server
  preemptive-scheduler run --shadow default-scheduler
      schedule nothing and write nothing; compare what this scheduler would do with the pods of
      kube-scheduler with what it does

exit codes: 0 stopped by SIGTERM or SIGINT; 1 the lease was lost, an internal error, or a second
signal; 2 it cannot start
"""

_TRUE, _FALSE = ("true", "1", "t"), ("false", "0", "f")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "run",
        help="schedule the pods of a cluster",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--config", metavar="FILE", help="KubeSchedulerConfiguration to use")
    command.add_argument(
        "--write-config-to", metavar="FILE", help="write the effective configuration and exit"
    )
    command.add_argument("--kubeconfig", default="", metavar="FILE", help="path of a kubeconfig")
    command.add_argument(
        "--logging-format", choices=("json", "text"), default="json", help="default: json"
    )
    command.add_argument(
        "-v", dest="verbosity", type=int, default=0, metavar="N",
        help="0: problems and preemptions only; 2: also every scheduling attempt; 4: also every"
        " write to the API server (default: 0)",
    )  # fmt: skip
    command.add_argument(
        "--recording-dir", default="", metavar="FOLDER",
        help="folder of the flight recorder, for `replay`; its size is limited (default: off)",
    )  # fmt: skip
    command.add_argument(
        "--recording-size", type=_size, default=64 * 1024 * 1024, metavar="QUANTITY",
        help="the size of all that is recorded, at least 1Mi (default: 64Mi)",
    )  # fmt: skip
    command.add_argument(
        "--recording-retention", type=_retention, default=86_400.0, metavar="DURATION",
        help="how long a recording is kept, at least 1m (default: 24h)",
    )  # fmt: skip
    command.add_argument(
        "--compare-cache-period", type=_duration, default=900.0, metavar="DURATION",
        help="how often the cache is compared with the API server; 0 for never (default: 15m)",
    )  # fmt: skip
    command.add_argument(
        "--shadow", type=_names, default=(), metavar="NAME[,NAME...]",
        help="schedule nothing and write nothing but the lease: compare what this scheduler would"
        " do with the pods of these schedulers, as default-scheduler (default: off)",
    )  # fmt: skip
    command.add_argument(
        "--evict-only", action="store_true",
        help="evict all victims through the eviction API, which never violates a disruption budget;"
        " needs no permission to delete pods",
    )  # fmt: skip
    command.add_argument(
        "--reference", choices=(AUTO, *REFERENCES),
        help="release of kube-scheduler whose decisions are reproduced; auto is that of the API"
        " server (default: the one in the configuration, else auto)",
    )  # fmt: skip
    command.add_argument(
        "--reference-change", choices=("report", "restart"), default="report",
        help="what follows when all API servers have had another release for ten minutes: restart"
        " ends the process with exit code 0, so that it is started again (default: report)",
    )  # fmt: skip
    _add_serving(command.add_argument_group("serving"))
    _add_election(command.add_argument_group("leader election"))
    command.set_defaults(func=run)


def _add_serving(group: Any) -> None:
    group.add_argument("--bind-address", default="0.0.0.0", metavar="IP", help="default: 0.0.0.0")
    group.add_argument(
        "--secure-port", type=int, default=10259, metavar="PORT",
        help="HTTPS port for health and metrics; 0 disables serving (default: 10259)",
    )  # fmt: skip
    group.add_argument("--tls-cert-file", default="", metavar="FILE")
    group.add_argument("--tls-private-key-file", default="", metavar="FILE")
    group.add_argument(
        "--tls-min-version", type=_tls_version, default="", metavar="VERSION",
        help="minimum TLS version: VersionTLS12 or VersionTLS13"
        " (default: VersionTLS12)",
    )  # fmt: skip
    group.add_argument(
        "--tls-cipher-suites", type=_cipher_suites, default=(), metavar="NAMES",
        help="comma-separated cipher suites for TLS 1.2 (default: those of OpenSSL)",
    )  # fmt: skip
    group.add_argument(
        "--authorization-always-allow-paths", type=_paths, metavar="PATHS",
        default=("/healthz", "/readyz", "/livez"),
        help="comma-separated paths that are served without authorization; may end in *"
        " (default: /healthz,/readyz,/livez)",
    )  # fmt: skip
    for name in (
        "authentication-token-webhook-cache-ttl",
        "authorization-webhook-cache-authorized-ttl",
        "authorization-webhook-cache-unauthorized-ttl",
    ):
        group.add_argument(
            f"--{name}", type=_duration, default=10.0, metavar="DURATION", help="default: 10s"
        )


def _add_election(group: Any) -> None:
    group.add_argument(
        "--leader-elect", nargs="?", type=_boolean, const=True, metavar="BOOL",
        help="acquire a lease before scheduling (default: true)",
    )  # fmt: skip
    for name in ("lease-duration", "renew-deadline", "retry-period"):
        group.add_argument(f"--leader-elect-{name}", type=_duration, metavar="DURATION")
    for name in ("resource-lock", "resource-name", "resource-namespace"):
        group.add_argument(f"--leader-elect-{name}", metavar="NAME")
    group.add_argument(
        "--owner-deployment", default="", metavar="NAME",
        help="Deployment in the namespace of the lease; lease and ledger are deleted with it"
        " (default: none)",
    )  # fmt: skip


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"a name is empty: {text!r}")
    return names


def _paths(text: str) -> tuple[str, ...]:
    paths = tuple(path for path in text.split(",") if path)
    if wrong := [path for path in paths if "*" in path[:-1]]:
        raise argparse.ArgumentTypeError(f"* is only allowed at the end: {wrong[0]!r}")
    return paths


def _tls_version(name: str) -> str:
    from scheduler.observe.server import tls_options

    try:
        tls_options.version(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return name


def _cipher_suites(text: str) -> tuple[str, ...]:
    from scheduler.observe.server import tls_options

    names = tuple(name for name in text.split(",") if name)
    try:
        tls_options.ciphers(names)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return names


def _duration(text: str) -> float:
    try:
        return durations.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _size(text: str) -> int:
    from scheduler.model.api import quantity

    try:
        size = quantity.value(text)
    except quantity.QuantityError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if size < 1024 * 1024:
        raise argparse.ArgumentTypeError(f"at least 1Mi: {text!r}")
    return size


def _retention(text: str) -> float:
    seconds = _duration(text)
    if seconds < 60.0:
        raise argparse.ArgumentTypeError(f"at least 1m: {text!r}")
    return seconds


def run(arguments: argparse.Namespace, clock: "Clock | None" = None) -> int:
    """Run the scheduler until it is stopped; return the exit code.

    Args:
        arguments: Of the command line.
        clock: The source of time; `None` for the clock of this machine.
    """
    try:
        settings_as = reader(arguments)
        # What is needed before the release of the API server is known is the same in all of them;
        # the newest one knows most settings.
        configured = settings_as(NEWEST)
    except OSError as error:
        print(f"{arguments.config}: {error.strerror or error}", file=sys.stderr)
        return 2
    except (ConfigError, NamesError) as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.write_config_to:
        return _write(configured, arguments.write_config_to)
    if problem := _conflict(arguments):
        print(problem, file=sys.stderr)
        return 2
    with signals.ending_at_once():  # the imports take most of a second
        return _serve(lambda: options(arguments, configured, settings_as), clock)


def _conflict(arguments: argparse.Namespace) -> str:
    """Return which flags contradict each other; empty for none."""
    if bool(arguments.tls_cert_file) != bool(arguments.tls_private_key_file):
        return "--tls-cert-file and --tls-private-key-file must be set together"
    if arguments.shadow and arguments.recording_dir:
        return "--recording-dir has no use with --shadow: there are no decisions to replay"
    return ""


def _serve(options: "Callable[[], ProcessOptions]", clock: "Clock | None") -> int:
    with importing.lean():
        from scheduler.service.process import serve

    return serve(options(), clock)


def options(
    arguments: argparse.Namespace,
    configured: Settings,
    settings_as: Callable[[Reference], Settings] | None = None,
) -> "ProcessOptions":
    """Return the options of the live scheduler.

    Args:
        arguments: Flags, which set more than the configuration has.
        configured: The configuration.
        settings_as: Returns it as another release has it; `None` where the release is fixed.
    """
    from scheduler.observe.logs.logs import Format
    from scheduler.service.options import ProcessOptions

    return ProcessOptions(
        settings=configured,
        settings_as=settings_as,
        kubeconfig=arguments.kubeconfig,
        logging_format=Format(arguments.logging_format),
        verbosity=arguments.verbosity,
        bind_address=arguments.bind_address,
        secure_port=arguments.secure_port,
        tls_cert_file=arguments.tls_cert_file,
        tls_private_key_file=arguments.tls_private_key_file,
        tls_min_version=arguments.tls_min_version,
        tls_cipher_suites=arguments.tls_cipher_suites,
        flags=_flags(arguments, configured),
        recording_dir=arguments.recording_dir,
        recording_bytes=arguments.recording_size,
        recording_retention=arguments.recording_retention,
        open_paths=arguments.authorization_always_allow_paths,
        token_cache_seconds=arguments.authentication_token_webhook_cache_ttl,
        allowed_cache_seconds=arguments.authorization_webhook_cache_authorized_ttl,
        denied_cache_seconds=arguments.authorization_webhook_cache_unauthorized_ttl,
        evict_only=arguments.evict_only,
        owner_deployment=arguments.owner_deployment,
        shadow=arguments.shadow,
        restart_on_change=arguments.reference_change == "restart",
        compare_seconds=arguments.compare_cache_period,
    )


def _flags(arguments: argparse.Namespace, configured: Settings) -> dict[str, str]:
    """Return all flags with the values in force, by name, formatted as Go formats them."""
    election = configured.leader_election
    given = {name: value for name, value in vars(arguments).items() if name != "func"}
    given |= {
        "v": given.pop("verbosity"),
        "leader_elect": election.leader_elect,
        "leader_elect_lease_duration": election.lease_duration_seconds,
        "leader_elect_renew_deadline": election.renew_deadline_seconds,
        "leader_elect_retry_period": election.retry_period_seconds,
        "leader_elect_resource_lock": election.resource_lock,
        "leader_elect_resource_name": election.resource_name,
        "leader_elect_resource_namespace": election.resource_namespace,
    }
    return {name.replace("_", "-"): _written(value) for name, value in given.items()}


def _written(value: object) -> str:
    """Return the value of a flag as Go formats it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return durations.text(value)
    if isinstance(value, tuple):
        return f"[{','.join(value)}]"
    return "" if value is None else str(value)


def settings(arguments: argparse.Namespace, server: Reference = OLDEST) -> Settings:
    """Return the configuration with the flags applied, as a release has it.

    Raises:
        ConfigError: The file breaks rules.
        OSError: The file cannot be read.
    """
    return reader(arguments)(server)


def reader(arguments: argparse.Namespace) -> Callable[[Reference], Settings]:
    """Read the configuration once; return a function that returns it as a release has it.

    Raises:
        ConfigError: The file breaks rules.
        OSError: The file cannot be read.
    """
    settings_as = _configured(arguments)
    if not arguments.shadow:
        return settings_as
    return lambda server: shadowing(settings_as(server), arguments.shadow)


def _configured(arguments: argparse.Namespace) -> Callable[[Reference], Settings]:
    election = LeaderElectionFlags(
        leader_elect=arguments.leader_elect,
        lease_duration_seconds=arguments.leader_elect_lease_duration,
        renew_deadline_seconds=arguments.leader_elect_renew_deadline,
        retry_period_seconds=arguments.leader_elect_retry_period,
        resource_lock=arguments.leader_elect_resource_lock,
        resource_name=arguments.leader_elect_resource_name,
        resource_namespace=arguments.leader_elect_resource_namespace,
    )
    reference = arguments.reference
    if arguments.config:
        return configuration.reader(arguments.config, leader_election=election, reference=reference)
    return lambda server: load.override(
        load.defaults(server=server, reference=reference),
        leader_election=election,
        deprecated=DeprecatedFlags(),
    )


def _write(settings: Settings, path: str) -> int:
    try:
        Path(path).write_text(load.render(settings), encoding="utf-8")
    except OSError as error:
        print(f"{path}: {error.strerror or error}", file=sys.stderr)
        return 2
    return 0
