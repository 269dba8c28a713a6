"""The configuration files of a node, as pure functions."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.tools.nodes import networking

__all__ = ["PAUSE_IMAGE", "Node", "containerd", "kubelet", "network", "proxy"]

#: The pause image, which is imported and never pulled.
PAUSE_IMAGE: Final = "localhost/workload:1"


@dataclass(frozen=True)
class Node:
    """One node.

    Attributes:
        name: its name in the cluster.
        number: 1, 2, ...; determines its addresses.
        folder: its disk, which stays after a loss of power.
        cgroup: the parent of the cgroups of its pods.
        cni: the folder of the CNI plugins.
    """

    name: str
    number: int
    folder: Path
    cgroup: str
    cni: Path

    @property
    def cdi(self) -> Path:
        """The folder where drivers describe devices, by the Container Device Interface.

        It is on the disk, because /run is a file system of the node alone.
        """
        return self.folder / "cdi"


def network(node: Node) -> str:
    """Return the CNI configuration."""
    plugin = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": networking.pods(node.number)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]})


def containerd(node: Node) -> str:
    """Return the configuration of containerd 2."""
    # In a namespace an oom_score_adj cannot be lowered, and profiles of AppArmor cannot be loaded.
    return f"""version = 3
[plugins.'io.containerd.internal.v1.opt']
  path = "/var/lib/containerd/opt"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_cdi = true
  cdi_spec_dirs = ["{node.cdi}"]
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{node.cni}"]
    conf_dir = "{node.folder}/cni"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def kubelet(node: Node, authority: Path) -> str:
    """Return the configuration of the kubelet, which accepts clients of this authority."""
    return _yaml(
        "kubelet.config.k8s.io/v1beta1",
        "KubeletConfiguration",
        failCgroupV1=False,
        cgroupDriver="cgroupfs",
        cgroupRoot=f"/{node.cgroup}",
        containerRuntimeEndpoint="unix:///run/containerd/containerd.sock",
        failSwapOn=False,
        # Both need CAP_SYS_RESOURCE to be raised.
        oomScoreAdj=0,
        maxOpenFiles=20000,
        address=networking.address(node.number),
        volumePluginDir="/var/lib/kubelet/plugins",
        resolvConf="",
        # Images were imported and cannot be pulled again.
        imageGCHighThresholdPercent=100,
        evictionHard={
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
        },
        authentication={
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        authorization={"mode": "Webhook"},
        nodeStatusUpdateFrequency="4s",
        # How soon a token is fetched again when it is due.
        syncFrequency="10s",
    )


def proxy(node: Node, kubeconfig: Path) -> str:
    """Return the configuration of kube-proxy."""
    return _yaml(
        "kubeproxy.config.k8s.io/v1alpha1",
        "KubeProxyConfiguration",
        mode="nftables",
        clientConnection={"kubeconfig": str(kubeconfig)},
        hostnameOverride=node.name,
        clusterCIDR=networking.PODS,
        nodePortAddresses=["primary"],
        healthzBindAddress="127.0.0.1:10256",
        metricsBindAddress="127.0.0.1:10249",
        # The limits are those of the machine, not of the namespace.
        conntrack={
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    )


def _yaml(version: str, kind: str, **fields: Any) -> str:
    return yaml.safe_dump({"apiVersion": version, "kind": kind, **fields}, sort_keys=False)
