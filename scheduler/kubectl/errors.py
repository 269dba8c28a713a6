"""What went wrong for the user, and what to do next."""

from scheduler.kube.errors import (
    ApiError,
    Forbidden,
    KubeError,
    NotServed,
    TooManyRequests,
    Unauthorized,
)

__all__ = ["CommandError", "api_server_error", "scheduler_error"]

LOG_IN = """\
log in again: the token or the client certificate of the kubeconfig may have expired
  kubectl auth whoami"""


class CommandError(Exception):
    """A problem in one line, and advice in some lines.

    Attributes:
        advice: What to do next; may be empty.
        status: The HTTP status of the scheduler; 0 if it is none of its answers.
    """

    def __init__(self, problem: str, advice: str = "", status: int = 0) -> None:
        super().__init__(problem)
        self.advice = advice
        self.status = status


def api_server_error(error: KubeError, rule: str) -> CommandError:
    """Return the error for a refusal of the API server.

    Args:
        error: The refusal.
        rule: The rule of a Role that allows the request, in YAML.
    """
    if isinstance(error, Unauthorized):
        return CommandError(str(error), LOG_IN)
    if isinstance(error, Forbidden):
        return CommandError(str(error), f"a Role with this rule is missing:\n{rule}")
    advice = "check that kubectl reaches the cluster: kubectl get --raw /livez"
    return CommandError(str(error), advice)


def scheduler_error(
    error: KubeError, verb: str, path: str, *, direct: bool = False
) -> CommandError:
    """Return the error for an answer of the scheduler that is not a success.

    Args:
        error: The answer.
        verb: `get`, or `post` for plans.
        path: The path without the query.
        direct: Whether it was asked at an address, with nothing of the kubeconfig.
    """
    if isinstance(error, Unauthorized):
        advice = (
            _TOKEN
            if direct
            else (
                f"{LOG_IN}\nThe scheduler accepts bearer tokens, and client certificates that the"
                " cluster's client CA signed."
            )
        )
        return CommandError("the scheduler does not accept the credentials", advice, 401)
    reason = str(error).removeprefix(f"cannot {verb} {path}: ")
    if isinstance(error, Forbidden):
        return CommandError(reason, _missing(reason, verb, path))
    if isinstance(error, TooManyRequests):
        seconds = error.retry_after or 1.0
        return CommandError(reason, f"try again in {seconds:.0f} s", 429)
    if isinstance(error, NotServed):
        return CommandError(
            "the server does not know this question",
            "the scheduler is older than the plugin, or another server listens there: update the"
            " scheduler",
        )
    if isinstance(error, ApiError):
        return CommandError(reason, _ADVICE.get(error.status, ""), error.status)
    return CommandError(reason)


_TOKEN = """\
--token-file FILE names a file with a token that is sent, for example of a ServiceAccount:
  kubectl create token SERVICE_ACCOUNT -n NAMESPACE > FILE"""
_PODS = '  - apiGroups: [""]\n    resources: ["pods"]\n    verbs: ["get"]'
#: It comes with the chart and the manifests.
_VIEWER = "preemptive-scheduler-viewer"
_ADVICE = {
    413: "plan fewer objects at once",
    503: "try again in a few seconds; the log of the scheduler says why it is not ready",
}


def _missing(message: str, verb: str, path: str) -> str:
    """Return which rule is missing: on the path, or on pods, as for a pod or a recording."""
    if f"{verb} path" in message or not path.startswith(("/api/v1/pods/", "/api/v1/recording")):
        return f"bind the ClusterRole {_VIEWER} to this user, or one with this rule:\n{_rule(verb)}"
    where = "in all namespaces" if path == "/api/v1/recording" else "in that namespace"
    return f"this rule is missing {where}:\n{_PODS}"


def _rule(verb: str) -> str:
    """Return the rule for a verb. The paths have a prefix: every user may read `/api`."""
    urls = '["/preemptive-scheduler/api/v1", "/preemptive-scheduler/api/v1/*"]'
    return f'  - nonResourceURLs: {urls}\n    verbs: ["{verb}"]'
