"""Settings: the effective configuration, checked, complete and immutable.

`load` returns them, and the rest of the program uses them. Plugin sets are expanded: a profile
holds, for each extension point, the plugins that run there in their order.

Defaults are those of kube-scheduler except where a second scheduler in the same cluster needs its
own: the profile name, the lease, and no client-side rate limit.

Source: kube-scheduler v1.36.3 k8s.io/kube-scheduler/config/v1 types.go;
pkg/scheduler/apis/config/v1/defaults.go SetDefaults_KubeSchedulerConfiguration.
"""

# ruff: noqa: RUF009 -- `wire` makes a dataclass field, evaluating it once is the point

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar, cast

from scheduler.config.args import PluginArgs
from scheduler.config.codecs import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    INT32,
    INT64,
    PLAIN_DURATION,
    STRING,
    array,
    converted,
    optional,
)
from scheduler.config.object_codec import Fields, wire
from scheduler.config.plugin_catalogue import Point
from scheduler.model.releases import OLDEST, Reference

__all__ = [
    "OUR_NAME",
    "ClientConnection",
    "Common",
    "Extender",
    "ExtenderTLS",
    "LeaderElection",
    "ManagedResource",
    "ProfileSettings",
    "Settings",
    "Weighted",
]

#: Name of the default profile and of the default lease.
OUR_NAME: Final = "preemptive-scheduler"

A = TypeVar("A")


def _unlimited(rate: float) -> float | None:
    return rate if rate > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnection:
    """How to connect to the API server."""

    #: Path of a kubeconfig file; empty means the service account of the pod.
    kubeconfig: str = wire("kubeconfig", STRING, "")
    #: Accepted and without effect: lists and watches are JSON, which is decoded straight into
    #: typed values.
    accept_content_types: str = wire("acceptContentTypes", STRING, "")
    #: Accepted and without effect, for the same reason.
    content_type: str = wire(
        "contentType", STRING, "application/vnd.kubernetes.protobuf", zero_is_default=True
    )
    #: Requests that may be sent per second; None means no limit, and so do 0 and negative numbers
    #: in the file. There is no limit by default because the number of concurrent requests is
    #: bounded and the API server enforces fairness itself.
    qps: float | None = wire(
        "qps", converted(FLOAT32, _unlimited, lambda each: -1.0 if each is None else each), None
    )
    #: Requests that may exceed `qps` for a moment; 100 if only `qps` is set. None if there is no
    #: limit.
    burst: int | None = wire("burst", optional(INT32), None, zero_is_default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    """Which of several replicas schedules."""

    #: Whether a replica must hold the lease before it schedules. On by default, since two replicas
    #: that schedule the same pods would interfere with each other.
    leader_elect: bool = wire("leaderElect", BOOLEAN, True)
    #: How long a lease is valid without renewal, in whole seconds; longer than `renew_deadline`.
    #: Bounds the gap after a crash. Zero in the file means the default, here and below.
    lease_duration_seconds: float = wire(
        "leaseDuration", PLAIN_DURATION, 15.0, zero_is_default=True
    )
    #: How long the holder tries to renew the lease before it stops, in seconds; longer than 1.2
    #: times `retry_period`, so that it gets a second try.
    renew_deadline_seconds: float = wire(
        "renewDeadline", PLAIN_DURATION, 10.0, zero_is_default=True
    )
    #: Pause between two tries to acquire or renew, in seconds.
    retry_period_seconds: float = wire("retryPeriod", PLAIN_DURATION, 2.0, zero_is_default=True)
    #: Kind of the lock object; only `leases` is supported.
    resource_lock: str = wire("resourceLock", STRING, "leases", zero_is_default=True)
    #: Name of the lease. Not that of kube-scheduler, unless the file sets it.
    resource_name: str = wire("resourceName", STRING, OUR_NAME, zero_is_default=True)
    #: Namespace of the lease; None means the namespace that the process runs in, taken from its
    #: service account, or `kube-system` outside of a cluster.
    resource_namespace: str | None = wire(
        "resourceNamespace", optional(STRING), None, zero_is_default=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedResource:
    """An extended resource that an extender manages."""

    #: Name of the extended resource, unique over all extenders.
    name: str = wire("name", STRING, "")
    #: Whether the filter of NodeResourcesFit leaves the resource to the extender.
    ignored_by_scheduler: bool = wire("ignoredByScheduler", BOOLEAN, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderTLS:
    """TLS settings for an extender; `*_data` takes precedence over `*_file`."""

    #: Whether the certificate of the extender is accepted unverified; excludes a CA.
    insecure: bool = wire("insecure", BOOLEAN, False)
    #: Name in the certificate; empty means the host of the URL.
    server_name: str = wire("serverName", STRING, "")
    #: Path of the client certificate (PEM).
    cert_file: str = wire("certFile", STRING, "")
    #: Path of the key of the client certificate (PEM).
    key_file: str = wire("keyFile", STRING, "")
    #: Path of the CA bundle (PEM).
    ca_file: str = wire("caFile", STRING, "")
    #: The client certificate itself (PEM); base64 in the file.
    cert_data: bytes = wire("certData", BYTES, b"")
    #: The key itself (PEM); base64 in the file.
    key_data: bytes = wire("keyData", BYTES, b"")
    #: The CA bundle itself (PEM); base64 in the file.
    ca_data: bytes = wire("caData", BYTES, b"")

    @property
    def has_ca(self) -> bool:
        """Whether there is a CA to verify the extender with."""
        return bool(self.ca_file or self.ca_data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extender:
    """A webhook that takes part in decisions.

    Source: kube-scheduler v1.36.3 pkg/scheduler/extender.go NewHTTPExtender.
    """

    #: URL that the verbs are appended to, with `/` in between.
    url_prefix: str = wire("urlPrefix", STRING, "")
    #: Path of the filter call; empty means that the extender does not filter.
    filter_verb: str = wire("filterVerb", STRING, "")
    #: Path of the preemption call; empty means that it takes no part in preemption.
    preempt_verb: str = wire("preemptVerb", STRING, "")
    #: Path of the prioritize call; empty means that it does not score.
    prioritize_verb: str = wire("prioritizeVerb", STRING, "")
    #: Factor of its scores; positive if it scores.
    weight: int = wire("weight", INT64, 0)
    #: Path of the bind call; empty means that it does not bind. At most one extender may bind.
    bind_verb: str = wire("bindVerb", STRING, "")
    #: If true and `tlsConfig` names no CA, the certificate of the extender is not verified. Only
    #: the scheme of `urlPrefix` decides whether TLS is used.
    enable_https: bool = wire("enableHTTPS", BOOLEAN, False)
    #: TLS details; None means the system's CAs and no client certificate.
    tls: ExtenderTLS | None = wire("tlsConfig", optional(Fields.of(ExtenderTLS)), None)
    #: Longest wait for one response, in seconds; negative means no limit. Zero in the file means
    #: the default: five seconds, after which a filter call fails the attempt.
    http_timeout_seconds: float = wire("httpTimeout", PLAIN_DURATION, 5.0, zero_is_default=True)
    #: Whether the extender knows the nodes, so that names are enough.
    node_cache_capable: bool = wire("nodeCacheCapable", BOOLEAN, False)
    #: Only pods that request one of these are sent to it; empty means all pods.
    managed_resources: tuple[ManagedResource, ...] = wire(
        "managedResources", array(Fields.of(ManagedResource)), ()
    )
    #: Whether scheduling goes on when the extender fails.
    ignorable: bool = wire("ignorable", BOOLEAN, False)


class Weighted(NamedTuple):
    """A scoring plugin and the factor of its scores."""

    name: str
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSettings:
    """One way of scheduling, chosen by the `schedulerName` of a pod.

    Each extension point holds the names of its plugins in the order in which they run.
    """

    #: Pods with this `spec.schedulerName` belong to the profile.
    scheduler_name: str = OUR_NAME
    #: Accepted and without effect: every node is evaluated. None means the global value.
    percentage_of_nodes_to_score: int | None = None

    pre_enqueue: tuple[str, ...] = ()
    queue_sort: tuple[str, ...] = ()
    pre_filter: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()
    post_filter: tuple[str, ...] = ()
    pre_score: tuple[str, ...] = ()
    #: With weights, never 0.
    score: tuple[Weighted, ...] = ()
    reserve: tuple[str, ...] = ()
    permit: tuple[str, ...] = ()
    pre_bind: tuple[str, ...] = ()
    bind: tuple[str, ...] = ()
    post_bind: tuple[str, ...] = ()
    #: Pod groups are not scheduled as one, so this point and the next are never run.
    placement_generate: tuple[str, ...] = ()
    #: With weights, never 0.
    placement_score: tuple[Weighted, ...] = ()

    #: Settings of plugins by plugin name: those in the file, and the defaults of the enabled ones.
    args: Mapping[str, PluginArgs] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    def plugins(self, point: Point) -> tuple[str, ...]:
        """Return the names of the plugins at an extension point, in order."""
        plugins = getattr(self, point.attribute)
        return tuple(plugin.name if isinstance(plugin, Weighted) else plugin for plugin in plugins)

    @property
    def enabled(self) -> frozenset[str]:
        """The names of all plugins that run at some extension point."""
        return frozenset(name for point in Point for name in self.plugins(point))

    def arguments(self, kind: type[A]) -> A:
        """Return the settings of the plugin that has settings of this class.

        Args:
            kind: one of the classes in `scheduler.config.args` except `ForeignArgs`.
        """
        args = self.args.get(cast("PluginArgs", kind).plugin)  # type: ignore[union-attr]
        return args if isinstance(args, kind) else kind()


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The settings that have the same form in the file and in memory."""

    #: Accepted and without effect: decisions are vector operations in one thread.
    parallelism: int = wire("parallelism", INT32, 16)
    leader_election: LeaderElection = wire(
        "leaderElection", Fields.of(LeaderElection), LeaderElection()
    )
    client_connection: ClientConnection = wire(
        "clientConnection", Fields.of(ClientConnection), ClientConnection()
    )
    #: Accepted and without effect: there are no profiling pages.
    enable_profiling: bool = wire("enableProfiling", BOOLEAN, True)
    #: Accepted and without effect, 0 to 100: every node is evaluated, so that the decision is the
    #: best one and reproducible. 0 stands for kube-scheduler's adaptive sampling.
    percentage_of_nodes_to_score: int = wire("percentageOfNodesToScore", INT32, 0)
    #: Back-off of a pod after its first failed attempt, in seconds; doubles with each further one.
    pod_initial_backoff_seconds: int = wire("podInitialBackoffSeconds", INT64, 1)
    #: Longest back-off of a pod, in seconds; at least the initial one.
    pod_max_backoff_seconds: int = wire("podMaxBackoffSeconds", INT64, 10)
    #: Webhooks in the order in which they are called: ignorable ones after the others.
    extenders: tuple[Extender, ...] = wire("extenders", array(Fields.of(Extender)), ())
    #: Accepted and without effect: every replica lists the cluster when it starts, so that a warm
    #: follower takes over at once.
    delay_cache_until_active: bool = wire("delayCacheUntilActive", BOOLEAN, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Common):
    """The effective configuration."""

    #: Accepted and without effect, as `enable_profiling`, whose value is its default.
    enable_contention_profiling: bool = wire("enableContentionProfiling", BOOLEAN, True)
    #: At least one, names unique; the plugin that sorts the queue is the same in all of them.
    profiles: tuple[ProfileSettings, ...]
    #: The release of kube-scheduler whose decisions are reproduced.
    reference: Reference = OLDEST
    #: Whether it is that of the API server, because no profile names one.
    follows_server: bool = True

    def profile(self, scheduler_name: str) -> ProfileSettings | None:
        """Return the profile with this `schedulerName`; None if there is none."""
        profiles = (
            profile for profile in self.profiles if profile.scheduler_name == scheduler_name
        )
        return next(profiles, None)
