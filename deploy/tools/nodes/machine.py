"""Whether this machine can host nodes, and which packages of Debian make it so."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from deploy.tools.nodes import cgroups

__all__ = ["PACKAGES", "absent", "install", "problems"]

#: What is needed, and the package of Debian that has it.
PACKAGES: Final[Mapping[str, str]] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "mount": "mount",
    "busybox": "busybox-static",
}

#: Plugins that connect pods; Debian's folder and the one of upstream's archives.
CNI_FOLDERS: Final = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CNI_PLUGINS: Final = ("bridge", "host-local", "loopback")
CNI_PACKAGE: Final = "containernetworking-plugins"

#: Where tools of the administrator are, which a user's PATH may lack.
ADMIN_PATH: Final = "/usr/local/sbin:/usr/sbin:/sbin"


def search_path() -> str:
    """Return PATH with the folders of the administrator."""
    return f"{os.environ.get('PATH', os.defpath)}:{ADMIN_PATH}"


def cni_folder() -> Path | None:
    """Return the folder with the plugins that connect pods, `None` if there is none."""
    for folder in CNI_FOLDERS:
        if all(os.access(folder / name, os.X_OK) for name in CNI_PLUGINS):
            return folder
    return None


def problems() -> list[str]:
    """Return why this machine cannot host nodes, line by line; nothing if it can."""
    found = []
    if platform.system() != "Linux":
        return [f"nodes need Linux, this is {platform.system()}"]
    if os.geteuid() != 0:
        found.append("nodes need root: namespaces, mounts and cgroups are made for them")
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
    """Return those of these programs that are not on PATH."""
    return [name for name in programs if shutil.which(name, path=search_path()) is None]


def install(extra: Mapping[str, str]) -> None:
    """Install what nodes need and is not here, with apt; nothing is asked for if all is here.

    What is here stays: a containerd that came with Docker would have to go for that of Debian.

    Args:
        extra: more programs, and the packages of Debian that have them.

    Raises:
        OSError: something is missing, and this is no Debian, or not root, or apt failed.
    """
    wanted = {**PACKAGES, **extra}
    names = {wanted[name] for name in absent(wanted)}
    if cni_folder() is None:
        names.add(CNI_PACKAGE)
    if not names:
        print("all programs are here")
        return
    _apt(sorted(names))


def _apt(names: list[str]) -> None:
    if shutil.which("apt-get") is None:
        raise OSError("there is no apt-get: this is neither Debian nor related to it")
    if os.geteuid() != 0:
        raise OSError("packages can be installed by root only")
    print(f"installing with apt: {' '.join(names)}", flush=True)
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *names]):
        answer = subprocess.run(["apt-get", *command], env=environ, check=False)
        if answer.returncode != 0:
            raise OSError(f"apt-get {command[0]} failed with exit code {answer.returncode}")


def _refused() -> list[str]:
    """Try what a node is made of: namespaces, a bridge, a mount."""
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
