"""Tables of refused documents: every reader of a kind of document uses the same one."""

from typing import Final

__all__ = ["BEYOND_THE_SCHEMA", "POLICIES", "VALID_POLICIES", "cases"]


def cases(text: str) -> dict[str, list[str]]:
    """Return documents with the problems of each.

    A line begins a document, four spaces a problem of it; eight continue the line before.
    """
    found: list[list[str]] = []
    for line in text.strip("\n").splitlines():
        if line.startswith(" " * 8):
            found[-1][-1] += f" {line.strip()}"
        elif line.startswith(" " * 4):
            found[-1].append(line.strip())
        else:
            found.append([line])
    return {document: problems for document, *problems in found}


#: Specs that the schema refuses, and the reader as well, with the begin of the problem.
POLICIES: Final = cases(r"""
{mode: Maybe}
    spec.mode: Unsupported value: "Maybe": supported values: "Audit", "Enforce"
{foreignVictims: Sometimes}
    spec.foreignVictims: Unsupported value: "Sometimes": supported values: "Always", "Never",
{victimsFrom: Namespace}
    spec.victimsFrom: Unsupported value: "Namespace": supported values: "Any", "SameNamespace",
{victimsFrom: [SameOwner]}
    spec.victimsFrom: Invalid type: expected a string, got a list
{podDisruptionBudgets: Lax}
    spec.podDisruptionBudgets: Unsupported value: "Lax": supported values: "BestEffort",
{podDisruptionBudgets: StrictBelow}
    spec.strictBelowPriority: Required value: podDisruptionBudgets is StrictBelow
{podDisruptionBudgets: Strict, strictBelowPriority: 0}
    spec.strictBelowPriority: Forbidden: podDisruptionBudgets is Strict, not StrictBelow
{strictBelowPriority: 5}
    spec.strictBelowPriority: Forbidden: podDisruptionBudgets is BestEffort, not StrictBelow
{podDisruptionBudgets: StrictBelow, strictBelowPriority: 2147483648}
    spec.strictBelowPriority: Invalid value: 2147483648: must be a 32-bit integer
{preemptors: {minPriority: 5, maxPriority: 4}}
    spec.preemptors.minPriority: Invalid value: 5: must not be greater than maxPriority, which is
{victims: {minPriority: 5, maxPriority: 4}}
    spec.victims.minPriority: Invalid value: 5: must not be greater than maxPriority, which is 4
{preemptors: {maxPriority: 10}, victims: {minPriority: 10}}
    spec.victims.minPriority: Invalid value: 10: must be less than spec.preemptors.maxPriority,
{victims: {maxPriority: 99999999999999999999}}
    spec.victims.maxPriority: Invalid type: expected a 64-bit integer, got 99999999999999999999
{victims: {maxPriority: high}}
    spec.victims.maxPriority: Invalid type: expected a 64-bit integer, got "high"
{budgets: [{window: 1h}]}
    spec.budgets[0].maxVictims: Required value
{budgets: [{maxVictims: 1}]}
    spec.budgets[0].window: Required value: a duration like "30m" or "24h"
{budgets: [{maxVictims: -1, window: 1h}]}
    spec.budgets[0].maxVictims: Invalid value: -1: not in valid range [0, 10000]
{budgets: [{maxVictims: 10001, window: 1h}]}
    spec.budgets[0].maxVictims: Invalid value: 10001: not in valid range [0, 10000]
{budgets: [{maxVictims: 1e40, window: 1h}]}
    spec.budgets[0].maxVictims: Invalid type: expected a 64-bit integer, got "1e40"
{budgets: [{maxVictims: 1.5, window: 1h}]}
    spec.budgets[0].maxVictims: Invalid type: expected a 64-bit integer, got 1.5
{budgets: [{maxVictims: 1, window: -5m}]}
    spec.budgets[0].window: Invalid value: "-5m0s": must be at least 1 second
{budgets: [{maxVictims: 1, window: 0s}]}
    spec.budgets[0].window: Invalid value: "0s": must be at least 1 second
{budgets: [{maxVictims: 1, window: 721h}]}
    spec.budgets[0].window: Invalid value: "721h0m0s": must be at most 720h
{budgets: [{maxVictims: 1, window: 1d}]}
    spec.budgets[0].window: Invalid value: unknown unit "d" in duration "1d"
{budgets: [{maxVictims: 1, window: 99999999999h}]}
    spec.budgets[0].window: Invalid value: invalid duration "99999999999h"
{budgets: [{maxVictims: 1, window: 3600}]}
    spec.budgets[0].window: Invalid type: expected a duration like "15s" or "1m30s", got 3600
{budgets: [{maxVictims: 1, window: 1h, scope: Rack}]}
    spec.budgets[0].scope: Unsupported value: "Rack": supported values: "Cluster", "Namespace",
{budgets: [{maxVictims: 1, window: 1h}, {maxVictims: 2, window: 1h}]}
    spec.budgets[1]: Duplicate value: "Cluster within 1h0m0s": another budget has the same scope
{budgets: {maxVictims: 1, window: 1h}}
    spec.budgets: Invalid type: expected a list, got an object
{maxVictimsPerPreemption: -1}
    spec.maxVictimsPerPreemption: Invalid value: -1: not in valid range [0, 10000]
{maxPreemptionsPerOwner: {maxPreemptions: 1}}
    spec.maxPreemptionsPerOwner.window: Required value: a duration like "30m" or "24h"
{maxPreemptionsPerOwner: {window: 1h}}
    spec.maxPreemptionsPerOwner.maxPreemptions: Required value
{victimMinRuntime: -1s}
    spec.victimMinRuntime: Invalid value: "-1s": must not be negative
{preemptorDelay: 1000000h}
    spec.preemptorDelay: Invalid value: "1000000h0m0s": must be at most 720h
{preemptors: {priorityClassNames: [High]}}
    spec.preemptors.priorityClassNames[0]: Invalid value: "High": a lowercase RFC 1123 subdomain
{preemptors: {priorityClassNames: [a, a]}}
    spec.preemptors.priorityClassNames[1]: Duplicate value: "a"
{preemptors: {priorityClassNames: ['']}}
    spec.preemptors.priorityClassNames[0]: Invalid value: "": a lowercase RFC 1123 subdomain must
{preemptors: [a]}
    spec.preemptors: Invalid type: expected an object, got a list
{stop: 'yes'}
    spec.stop: Invalid type: expected a boolean, got "yes"
{stopReason: 4711}
    spec.stopReason: Invalid type: expected a string, got 4711
{victims: {podSelector: {matchExpressions: [{key: a, operator: Near}]}}}
    spec.victims.podSelector.matchExpressions[0]: Invalid value: 'Near' is not a valid label
{victims: {podSelector: {matchExpressions: [{key: a, operator: In}]}}}
    spec.victims.podSelector.matchExpressions[0]: Invalid value: wrong number of values for
{victims: {podSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}}
    spec.victims.podSelector.matchExpressions[0]: Invalid value: wrong number of values for
{victims: {namespaceSelector: {matchLabels: {a: 1}}}}
    spec.victims.namespaceSelector.matchLabels.a: Invalid type: expected a string, got 1
null
    spec: Required value
{budgets: [{maxVictims: 1, window: 1h}, {maxVictims: 1, window: -5m}]}
    spec.budgets[1].window: Invalid value: "-5m0s": must be at least 1 second
""") | {
    f"{{stop: true, stopReason: {'x' * 257}}}": ["spec.stopReason: Invalid value: "],
    f"{{budgets: {[{}] * 17}}}": ["spec.budgets: Invalid value: 17: must have at most 16 items"],
}
#: Specs that the API server admits, and the reader refuses.
BEYOND_THE_SCHEMA: Final = cases(r"""
{maxVictimPerPreemption: 1}
    spec.maxVictimPerPreemption: unknown field "maxVictimPerPreemption", did you mean
{victims: {nodeSelector: {matchLabels: {a: b}}}}
    spec.victims.nodeSelector: unknown field "nodeSelector", did you mean "podSelector"?
{victims: {podSelector: {matchLabel: {a: b}}}}
    spec.victims.podSelector.matchLabel: unknown field "matchLabel", did you mean "matchLabels"?
{budgets: [{maxVictims: 1, window: 1h, per: Node}]}
    spec.budgets[0].per: unknown field "per"
{budgets: [{maxVictims: 1, window: 1h}, {maxVictims: 2, window: 60m}]}
    spec.budgets[1]: Duplicate value: "Cluster within 1h0m0s": another budget has the same scope
{victims: {podSelector: {matchLabels: {a: '!'}}}}
    spec.victims.podSelector.matchLabels.a: Invalid value: '!' is not a valid label value
{victims: {podSelector: {matchLabels: {'-a': b}}}}
    spec.victims.podSelector.matchLabels.-a: Invalid value: '-a' is not a valid label key
{victims: {podSelector: {matchExpressions: [{key: '/', operator: Exists}]}}}
    spec.victims.podSelector.matchExpressions[0]: Invalid value: '/' is not a valid label key
""")
VALID_POLICIES: Final = [
    "{}",
    "{preemptors: {}, victims: {podSelector: {}}, budgets: []}",
    "{stop: true, stopReason: incident 4711}",
    """
mode: Audit
preemptors:
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team-a}}
  podSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [batch]}]}
  minPriority: -2147483648
  maxPriority: 2147483647
  priorityClassNames: [system-cluster-critical, high]
victims: {maxPriority: 2147483646, podSelector: {matchExpressions: [{key: a, operator: Exists}]}}
podDisruptionBudgets: StrictBelow
strictBelowPriority: 0
budgets:
- {maxVictims: 0, window: 1s}
- {maxVictims: 10000, window: 720h, scope: Namespace}
- {maxVictims: 5, window: 1h30m, scope: Owner}
- {maxVictims: 5, window: 1.5h, scope: Node}
maxVictimsPerPreemption: 0
victimMinRuntime: "0"
maxPreemptionsPerOwner: {maxPreemptions: 3, window: 500000ms}
preemptorDelay: 0s
foreignVictims: NonLooping
victimsFrom: SameNamespace
""",
]
