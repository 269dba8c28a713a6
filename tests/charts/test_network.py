"""What the network policies of the chart allow."""

import pytest

from tests.charts.rendering import VALUES, one

pytestmark = pytest.mark.chart


def test_a_network_policy_allows_the_named_peers_in_and_only_the_api_server_out(helm):
    spec = one(helm.template(VALUES["a network policy"]), "NetworkPolicy")["spec"]

    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == []
    (rule,) = spec["egress"]
    assert rule["to"] == [{"ipBlock": {"cidr": each}} for each in ("10.0.0.1/32", "fd00::1/128")]
    assert [each["port"] for each in rule["ports"]] == [443, 6443]


def test_with_cilium_the_api_server_is_recognized_and_addresses_are_not(helm):
    objects = helm.template(VALUES["a network policy of Cilium"])

    assert one(objects, "NetworkPolicy")["spec"]["egress"] is None
    assert one(objects, "NetworkPolicy")["spec"]["policyTypes"] == ["Ingress", "Egress"]
    (rule,) = one(objects, "CiliumNetworkPolicy")["spec"]["egress"]
    assert rule == {
        "toEntities": ["kube-apiserver"],
        "toPorts": [{"ports": [{"port": port, "protocol": "TCP"} for port in ("443", "6443")]}],
    }


def test_names_are_resolved_where_extenders_need_it(helm):
    policy = VALUES["a network policy"]
    extenders = helm.template({**VALUES["profiles and extenders"], **policy})
    asked = {"networkPolicy": {**policy["networkPolicy"], "dns": {"enabled": True}}}

    for objects in (extenders, helm.template(asked)):
        _, names = one(objects, "NetworkPolicy")["spec"]["egress"]
        assert {each["port"] for each in names["ports"]} == {53}
        (resolver,) = names["to"]
        assert resolver["podSelector"] == {"matchLabels": {"k8s-app": "kube-dns"}}
