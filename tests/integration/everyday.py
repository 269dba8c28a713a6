"""The questions that people ask every day, with what they type and what they read then."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

#: Stands for any text within a line.
ANY: Final = "…"


class Command(NamedTuple):
    """A line that is typed, and what a person reads then.

    Attributes:
        typed: the line; `{name}` is a name of the place.
        says: the first line, and others in their order, as far as each is given.
        code: the exit code.
    """

    typed: str
    says: Sequence[str] = ()
    code: int = 0


class Story(NamedTuple):
    """A question, the fixture that makes its place, and in how many commands it is answered."""

    question: str
    place: str
    steps: int
    commands: Sequence[Command]


def missing(says: Sequence[str], text: str) -> list[str]:
    """Return the lines that a text does not have, in this order; the first has to begin it."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    wanted = [
        re.compile(".*".join(map(re.escape, " ".join(line.split()).split(ANY)))) for line in says
    ]
    if not says:
        return []
    if not (lines and wanted[0].fullmatch(lines[0])):
        return [says[0]]
    left = iter(lines[1:])
    return [
        line
        for line, pattern in zip(says[1:], wanted[1:], strict=True)
        if not any(pattern.fullmatch(each) for each in left)
    ]


STORIES: Final = (
    Story(
        "my pods are pending: why?",
        "full_cluster",
        1,
        [
            Command(
                "kubectl preemptive why deploy/api",
                [
                    "3 pods of Deployment/api have waited … for 1 cpu each: 2 nodes lack cpu;"
                    " no pod of lower priority can be evicted there; a priority above 500 would"
                    " preempt.",
                    "POD STATE SINCE NODE PRIORITY REQUESTS",
                    "{ns}/api-… waiting … - 100 cpu 1",
                    "What would help:",
                    "- All 2 cpu of {nodes}-… are held by pods of priority 500 or higher: a"
                    " priority above 500 would preempt, and evict {ns}/batch-… on {nodes}-….",
                    "- One more node like {nodes}-… would have room for 2 such pods while it is"
                    " empty.",
                ],
            )
        ],
    ),
    Story(
        "who evicted my pod, and why?",
        "evicted_pod",
        1,
        [
            Command(
                "kubectl preemptive why {victim}",
                [
                    "{ns}/{victim} was evicted from {node} at …Z for {ns}/urgent (priority 1000"
                    " > 100); chosen of 2 nodes by: lowest priority of its most important victim;"
                    " batch-… replaces it and waits.",
                    "AGE EVICTED STATE NODE FOR PRIORITY REPLACED BY",
                    "… {ns}/{victim} gone {node} {ns}/urgent 1000 {ns}/batch-…, pending",
                    "Node {node} was chosen by: lowest priority of its most important victim",
                    "{node} 0 100 100 1 chosen",
                    "{other} 0 500 500 1 highestPriority",
                    "kubectl preemptive preemptions … shows that preemption.",
                ],
            )
        ],
    ),
    Story(
        "what would happen if I applied this?",
        "guarded_cluster",
        1,
        [
            Command(
                "kubectl preemptive plan -f urgent.yaml --fail-on budget",
                [
                    "Applying this would evict 1 pod (1 owner) and violate 1 disruption budget:"
                    " {ns}/cache; 1 evicted pod would find no other node.",
                    "{ns}/urgent Preempting {node} 1 1 Insufficient cpu…",
                    "{ns}/urgent would evict 1 pod on node {node}:",
                    "{ns}/cache-… 100 … cpu 1 violates {ns}/cache",
                    "{ns}/cache-… {node} pending, as {ns}/cache-…",
                ],
                5,
            ),
        ],
    ),
    Story(
        "would the API server and this scheduler take this file at all?",
        "guarded_cluster",
        1,
        [
            Command(
                "kubectl preemptive plan -f typo.yaml",
                [
                    "error: typo.yaml:1: Pod: spec.contaners: unknown field, did you mean"
                    ' "containers"?; Pod: spec.containers is missing'
                ],
                1,
            ),
        ],
    ),
    Story(
        "may I drain this node?",
        "guarded_cluster",
        1,
        [
            Command(
                "kubectl preemptive plan --drain {node}",
                [
                    "Draining {node} would evict no pod; the drain of {node} stops at {ns}/cache-…:"
                    " budget {ns}/cache allows 0.",
                    "Pods at which drains stop:",
                    "{ns}/cache-… {node} {ns}/cache",
                ],
                5,
            ),
        ],
    ),
    Story(
        "may I drain all nodes of this zone together?",
        "zone",
        1,
        [
            Command(
                "kubectl preemptive plan --drain zone={zone}",
                [
                    "Draining 2 nodes would evict 2 pods (1 owner); 1 evicted pod would find no"
                    " other node.",
                    "Drained pods, and what becomes of them:",
                    "{ns}/web-… on {elsewhere}, as {ns}/web-…",
                ],
                3,
            ),
        ],
    ),
    Story(
        "team A evicts at most 10 pods an hour",
        "two_teams",
        2,
        [
            Command("kubectl apply -f policy.yaml"),
            Command(
                "kubectl preemptive policies",
                [
                    "POLICY MODE STATE REFUSED WOULD REFUSE",
                    "{policy} Enforce in force … -",
                    "preemptors: namespace team=a · at most 10 victims within 1h in total (10"
                    " spent)",
                    "refused last: {ns}/a-…, … ago",
                ],
            ),
        ],
    ),
    Story(
        "undo a bad policy",
        "bad_policy",
        2,
        [
            Command(
                "kubectl preemptive policies history {policy}",
                [
                    "Generation 2 of PreemptionPolicy {policy} has been in force for ….",
                    "GENERATION ACCEPTED CHANGED",
                    "2 … ago budgets[0].maxVictims: 1 → 0",
                    "1 … ago the oldest that is kept",
                ],
            ),
            Command("kubectl preemptive policies undo {policy} | kubectl replace -f -"),
        ],
    ),
    Story(
        "what did last night cost?",
        "killed_leader",
        1,
        [
            Command(
                "kubectl preemptive report --since 12h --until 0s",
                [
                    "Between … UTC, 2 pods were evicted for 1 pod of 1 namespace; … of work were"
                    " lost, none of it for nothing.",
                    "By namespace",
                    "NAMESPACE EVICTED WASTED LOST FOR IT LOST FOR IT",
                    "{ns} 2 0 … core-h 2 … core-h",
                    "For whom most was lost",
                    "PREEMPTOR PODS EVICTED WASTED LOST",
                    "{ns}/Pod/urgent 1 2 0 … core-h",
                    "What policies refused, known since …",
                    "{policy} Enforce …",
                ],
            ),
        ],
    ),
    Story(
        "what would it do in my cluster, before I enable it?",
        "beside_kube_scheduler",
        1,
        [
            Command(
                "kubectl preemptive shadow",
                [
                    "Of 4 pods of {scheduler}, 4 (100.0 %) were placed on the same or an equally"
                    " good node; 1 preemption would have been avoided.",
                    "COUNT PODS",
                    "1 pods are evicted, but this scheduler would evict none",
                    "PREEMPTIONS OF EVICTED LOST",
                    "{scheduler} 2 … core-h, … pod-h",
                    "this scheduler 0 -",
                    "AGE POD OUTCOME THEIRS OURS WHY",
                    "… {ns}/vip preemption avoided {node}, evicts 2 pending …PreemptionPolicy"
                    ' "{ns}" refuses: at most 1 victim per preemption.',
                ],
            ),
        ],
    ),
)
