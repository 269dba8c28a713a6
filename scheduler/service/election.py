"""Builds the lease, the ledger's place and the rate limiter from the settings."""

from scheduler.kube.auth import cluster_access
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.rate_limiter import RateLimiter
from scheduler.kube.leader_election import LeaderElectionConfig, LeaderElector, unique_identity
from scheduler.service.clock import Clock
from scheduler.service.options import ProcessOptions

__all__ = ["lease", "ledger_place", "limiter"]


def limiter(options: ProcessOptions) -> RateLimiter | None:
    """Return the rate limiter of requests; `None` for no limit."""
    wanted = options.settings.client_connection
    return None if wanted.qps is None else RateLimiter(wanted.qps, wanted.burst or 100)


def lease(
    options: ProcessOptions, client: Client, clock: Clock, sleeper: Sleeper
) -> LeaderElector | None:
    """Return the lease; `None` without leader election."""
    election = options.settings.leader_election
    if not election.leader_elect:
        return None
    settings = LeaderElectionConfig(
        namespace=election.resource_namespace or _own_namespace(),
        name=election.resource_name,
        identity=unique_identity(),
        duration_seconds=election.lease_duration_seconds,
        renew_deadline_seconds=election.renew_deadline_seconds,
        retry_seconds=election.retry_period_seconds,
    )
    return LeaderElector(client, settings, clock.wall, sleeper, clock.elapsed)


def ledger_place(options: ProcessOptions) -> tuple[str, str]:
    """Return namespace and name of the ConfigMap beside the lease."""
    election = options.settings.leader_election
    return election.resource_namespace or _own_namespace(), f"{election.resource_name}-ledger"


def _own_namespace() -> str:
    """Return the namespace in which this process runs, `kube-system` outside of a cluster."""
    try:
        return (cluster_access.SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    except OSError:
        return "kube-system"
