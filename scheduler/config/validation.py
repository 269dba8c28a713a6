"""Validation of the values outside of profiles.

Third stage of reading, after `codecs`: everything has the right type by now.

Source: kube-scheduler v1.36.3 pkg/scheduler/apis/config/validation/validation.go
ValidateKubeSchedulerConfiguration; component-base v0.36.3 config/validation
ValidateClientConnectionConfiguration, ValidateLeaderElectionConfiguration; client-go v0.36.3
tools/leaderelection.NewLeaderElector, transport.TLSConfigFor.
Differs: certificate files of extenders are not opened here.
"""

from typing import Final

from scheduler.config import durations, names
from scheduler.config.field_errors import ErrorReport
from scheduler.config.settings import Common, Extender, LeaderElection

__all__ = ["check", "check_leader_election", "check_percentage"]

#: The longest pause between two attempts to renew, as a multiple of the retry period.
_JITTER_FACTOR: Final = 1.2


def check(common: Common, report: ErrorReport) -> None:
    """Report all errors in the settings."""
    if common.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        report.invalid("parallelism", common.parallelism, detail)
    check_percentage("percentageOfNodesToScore", common.percentage_of_nodes_to_score, report)
    _check_backoff(common, report)
    burst = common.client_connection.burst
    if burst is not None and burst < 0:
        report.invalid("clientConnection.burst", burst, "must be non-negative")
    check_leader_election(common.leader_election, report)
    _check_extenders(common.extenders, report)


def check_percentage(path: str, percentage: int | None, report: ErrorReport) -> None:
    """Report a share of nodes that is not a percentage."""
    if percentage is not None and not 0 <= percentage <= 100:
        report.invalid(path, percentage, "not in valid range [0-100]")


def _check_backoff(common: Common, report: ErrorReport) -> None:
    first, longest = common.pod_initial_backoff_seconds, common.pod_max_backoff_seconds
    if first <= 0:
        report.invalid("podInitialBackoffSeconds", first, "must be greater than 0")
    if longest < first and report.is_whole("podInitialBackoffSeconds"):
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        report.invalid("podMaxBackoffSeconds", longest, detail)


def check_leader_election(election: LeaderElection, report: ErrorReport) -> None:
    """Report all errors in leader election; there are none if it is disabled."""
    if not election.leader_elect:
        return
    _check_times(election, report)
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        report.invalid("leaderElection.resourceLock", election.resource_lock, detail)
    if not election.resource_name:
        report.required("leaderElection.resourceName")
    if election.resource_namespace == "":
        report.required("leaderElection.resourceNamespace")


def _check_times(election: LeaderElection, report: ErrorReport) -> None:
    at = "leaderElection"
    lease = durations.nanoseconds(election.lease_duration_seconds)
    renew = durations.nanoseconds(election.renew_deadline_seconds)
    retry = durations.nanoseconds(election.retry_period_seconds)
    shown = {
        "leaseDuration": durations.text(election.lease_duration_seconds),
        "renewDeadline": durations.text(election.renew_deadline_seconds),
        "retryPeriod": durations.text(election.retry_period_seconds),
    }
    for name, length in zip(shown, (lease, renew, retry), strict=True):
        if length <= 0:
            report.invalid(f"{at}.{name}", shown[name], "must be greater than zero")
    if lease > 0 and lease % 1_000_000_000:
        # Differs from kube-scheduler v1.36.3, which truncates it: another replica could take over
        # before the holder gives up if less than a second is between the two.
        detail = "must be whole seconds: a Lease cannot hold fractions of a second"
        report.invalid(f"{at}.leaseDuration", shown["leaseDuration"], detail)
    if lease <= renew and report.is_whole(f"{at}.renewDeadline"):
        detail = "must be greater than `RenewDeadline`"
        report.invalid(f"{at}.leaseDuration", shown["leaseDuration"], detail)
    if renew <= int(_JITTER_FACTOR * float(retry)) and report.is_whole(f"{at}.retryPeriod"):
        detail = "renewDeadline must be greater than retryPeriod*JitterFactor"
        report.invalid(f"{at}.renewDeadline", shown["renewDeadline"], detail)


def _check_extenders(extenders: tuple[Extender, ...], report: ErrorReport) -> None:
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            detail = "must have a positive weight applied to it"
            report.invalid(f"{path}.weight", extender.weight, detail)
        if extender.tls and extender.tls.insecure and extender.tls.has_ca:
            detail = "specifying a root certificates file with the insecure flag is not allowed"
            report.invalid(f"{path}.tlsConfig.insecure", value=True, detail=detail)
        for j, resource in enumerate(extender.managed_resources):
            _check_managed(f"{path}.managedResources[{j}].name", resource.name, managed, report)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        report.invalid("extenders", found, "only one extender can implement bind")


def _check_managed(path: str, name: str, managed: set[str], report: ErrorReport) -> None:
    for detail in names.extended_resource(name):
        report.invalid(path, name, detail)
    if name in managed:
        report.invalid(path, name, "duplicate extender managed resource name")
    managed.add(name)
