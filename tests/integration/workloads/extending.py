"""A workload with an extender, which is asked over HTTP."""

from typing import Any

from tests.integration.stage import Stage

#: One extender for all verbs but that of binding; it is sent whole nodes, and so sees labels.
CONFIG = {
    "extenders": [
        {
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "weight": 100,
        }
    ]
}


def extender(stage: Stage) -> None:
    """An extender decides: it refuses nodes, prefers nodes, and spares some from preemption.

    Each group has nodes of its own, so that it does not matter in which order they are tried: one
    that waits for an extender holds up others in kube-scheduler only.
    """
    pools = (("licensed", "a"), ("unlicensed", "a"), ("favoured", "b"), ("other", "b"))
    for kind, pool in (*pools, ("cheap", "c"), ("spared", "c")):
        stage.nodes(kind, 2, labels={"pool": pool})
    stage.running("cheap", stage.of("cheap"), 2, "4")
    stage.running("spared", stage.of("spared"), 1, "4")

    stage.pods("asks", 9, "1", nodeSelector={"pool": "a"})
    stage.pods("plain", 5, "2", nodeSelector={"pool": "b"})
    stage.pods("preempts", 1, "4", nodeSelector={"pool": "c"})


def refuse(asked: Any) -> Any:
    """Answer `filter`: pods that ask get no unlicensed node."""
    nodes = asked["Nodes"]["items"]
    refused = [each for each in nodes if asks(asked["Pod"]) and kind(each) == "unlicensed"]
    return {
        "Nodes": {"items": [each for each in nodes if each not in refused]},
        "FailedNodes": {each["metadata"]["name"]: "no license" for each in refused},
    }


def prefer(asked: Any) -> Any:
    """Answer `prioritize`: favoured nodes are best, licensed ones next."""
    scores = {"favoured": 10, "licensed": 5}
    return [
        {"Host": each["metadata"]["name"], "Score": scores.get(kind(each), 0)}
        for each in asked["Nodes"]["items"]
    ]


def spare(asked: Any) -> Any:
    """Answer `preempt`: remove these from the victims."""
    return {
        "NodeNameToMetaVictims": {
            node: {
                "Pods": [{"UID": each["metadata"]["uid"]} for each in victims["Pods"]],
                "NumPDBViolations": victims.get("NumPDBViolations", 0),
            }
            for node, victims in asked["NodeNameToVictims"].items()
            if all(each["metadata"]["labels"]["app"] != "spared" for each in victims["Pods"])
        }
    }


ANSWERS = {"filter": refuse, "prioritize": prefer, "preempt": spare}


def asks(pod: Any) -> bool:
    """Return whether a pod needs a license."""
    return bool(pod["metadata"]["labels"]["app"].startswith("asks"))


def kind(node: Any) -> str:
    """Return the kind of a node."""
    found: str = node["metadata"]["labels"]["kind"]
    return found
