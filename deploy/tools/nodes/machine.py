"""Checks whether this machine can host nodes, and installs Debian's packages for them."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from deploy.tools.nodes import cgroups

__all__ = ["PACKAGES", "absent", "install", "problems"]

#: The programs that are needed, and Debian's packages with them.
PACKAGES: Final[Mapping[str, str]] = {
    "runc": "runc",
    "nft": "nftables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "mount": "mount",
    "busybox": "busybox-static",
}

#: The CNI plugins; Debian's folder and that of upstream's archives.
CNI_FOLDERS: Final = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CNI_PLUGINS: Final = ("bridge", "host-local", "loopback")
CNI_PACKAGE: Final = "containernetworking-plugins"

#: Folders of administrators' programs, which may be missing in a user's PATH.
ADMIN_PATH: Final = "/usr/local/sbin:/usr/sbin:/sbin"


def search_path() -> str:
    """Return PATH with the folders of administrators' programs."""
    return f"{os.environ.get('PATH', os.defpath)}:{ADMIN_PATH}"


def cni_folder() -> Path | None:
    """Return the folder with the CNI plugins, `None` if there is none."""
    for folder in CNI_FOLDERS:
        if all(os.access(folder / name, os.X_OK) for name in CNI_PLUGINS):
            return folder
    return None


def problems() -> list[str]:
    """Return the reasons why this machine cannot host nodes; empty if it can."""
    found = []
    if platform.system() != "Linux":
        return [f"nodes need Linux, this is {platform.system()}"]
    if os.geteuid() != 0:
        found.append("nodes need root, for namespaces, mounts and cgroups")
    found += [f"{name} is not on PATH (Debian: {PACKAGES[name]})" for name in absent(PACKAGES)]
    if cni_folder() is None:
        folders = " or ".join(str(folder) for folder in CNI_FOLDERS)
        wanted = ", ".join(CNI_PLUGINS)
        found.append(f"no {wanted} in {folders} (Debian: {CNI_PACKAGE})")
    if not cgroups.hierarchies():
        found.append(f"{cgroups.ROOT} has no cgroup hierarchy with memory and pids")
    if not found:
        found += _refused()
    return found


def absent(programs: Iterable[str]) -> list[str]:
    """Return the programs that are not on PATH."""
    return [name for name in programs if shutil.which(name, path=search_path()) is None]


def install(extra: Mapping[str, str]) -> None:
    """Install the missing programs with apt; apt is not called if nothing is missing.

    Installed programs stay: Debian's runc would replace the one that came with Docker.

    Args:
        extra: additional programs, and Debian's packages with them.

    Raises:
        OSError: a program is missing, and there is no apt, no root, or apt failed.
    """
    wanted = {**PACKAGES, **extra}
    names = {wanted[name] for name in absent(wanted)}
    if cni_folder() is None:
        names.add(CNI_PACKAGE)
    if not names:
        print("all programs are installed")
        return
    _apt(sorted(names))


def _apt(names: list[str]) -> None:
    if shutil.which("apt-get") is None:
        raise OSError("there is no apt-get: this is not Debian or a derivative")
    if os.geteuid() != 0:
        raise OSError("only root can install packages")
    print(f"installing with apt: {' '.join(names)}", flush=True)
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *names]):
        answer = subprocess.run(["apt-get", *command], env=environ, check=False)
        if answer.returncode != 0:
            raise OSError(f"apt-get {command[0]} failed with exit code {answer.returncode}")


def _refused() -> list[str]:
    """Return an error if namespaces, a bridge or a mount cannot be created."""
    attempt = "ip link add try0 type bridge && mount -t tmpfs tmpfs /mnt"
    command = [
        "unshare",
        "--net",
        "--pid",
        "--mount",
        "--fork",
        "--mount-proc",
        "sh",
        "-c",
        attempt,
    ]
    environ = {**os.environ, "PATH": search_path()}
    answer = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if answer.returncode == 0:
        return []
    return [f"this machine refuses namespaces, bridges or mounts: {answer.stderr.strip()}"]
