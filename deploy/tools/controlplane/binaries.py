"""Finds or builds the binaries of the control plane, and tools such as helm.

They come from the folder in KUBEBUILDER_ASSETS, from PATH, from the cache of this user, or from a
build of the Go modules below `go/` (see `building`), in this order. Binaries of the first two are
used only if they report the wanted version. The `require` lines of the go.mod files are the only
place that names versions.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.tools.controlplane.building import BuildError, Recipe, build

TOOLS = Path(__file__).with_name("go")


@dataclass(frozen=True)
class Binary:
    """A binary that can be found or built."""

    name: str
    #: Folder below `go/` with the Go module. Modules of other minor versions of Kubernetes are in
    #: `<folder>-<minor>`, or in it as `go-<minor>.mod` where the code is our own.
    folder: str
    #: The required module whose version is the version of the binary.
    pin: str
    #: What `go build` builds.
    package: str
    #: Build time on two idle cores with an empty build cache, for the progress line.
    expected_seconds: int
    #: Go variables to set at link time; {version}, {major} and {minor} are filled in.
    stamp: Mapping[str, str]
    #: The arguments that print the version.
    version_args: tuple[str, ...] = ("--version",)
    #: Whether another patch release of the same minor version is refused.
    exact: bool = True
    #: Whether the code is in the folder itself, so that a change of it requires another build.
    own_code: bool = False
    #: Build tags of Go.
    tags: tuple[str, ...] = ()


_COMPONENT_BASE = "k8s.io/component-base/version"
_KUBERNETES_STAMP = {
    f"{_COMPONENT_BASE}.gitVersion": "{version}",
    f"{_COMPONENT_BASE}.gitMajor": "{major}",
    f"{_COMPONENT_BASE}.gitMinor": "{minor}",
}


def _kubernetes(name: str, expected_seconds: int) -> Binary:
    pin = "k8s.io/kubernetes"
    package = f"{pin}/cmd/{name}"
    return Binary(name, "kubernetes", pin, package, expected_seconds, _KUBERNETES_STAMP)


def _containerd(name: str, expected_seconds: int, version_args: tuple[str, ...]) -> Binary:
    pin = "github.com/containerd/containerd/v2"
    return Binary(
        name,
        "containerd",
        pin,
        f"{pin}/cmd/{name}",
        expected_seconds,
        {f"{pin}/version.Version": "{version}"},
        version_args,
        exact=False,
        # Snapshotters that nodes do not use; the first one needs C.
        tags=("no_btrfs", "no_devmapper", "no_zfs"),
    )


#: Every binary by name. To add one: a line here, an import in its module's tools.go, `go mod tidy`
#: (with tags, `go build -mod=mod -tags ...` instead, so that what they leave out is not required).
BINARIES: Mapping[str, Binary] = {
    binary.name: binary
    for binary in (
        Binary(
            "etcd",
            "etcd",
            "go.etcd.io/etcd/server/v3",
            "go.etcd.io/etcd/server/v3",
            30,
            {},
            exact=False,
        ),
        _kubernetes("kube-apiserver", 200),
        _kubernetes("kube-controller-manager", 55),
        _kubernetes("kube-scheduler", 10),
        _kubernetes("kubelet", 30),
        _kubernetes("kube-proxy", 10),
        Binary(
            "kubectl",
            "kubernetes",
            "k8s.io/kubernetes",
            "k8s.io/kubernetes/cmd/kubectl",
            20,
            _KUBERNETES_STAMP,
            version_args=("version", "--client"),
        ),
        Binary(
            "scheduler-oracle",
            "oracle",
            "k8s.io/kubernetes",
            ".",
            15,
            _KUBERNETES_STAMP,
            own_code=True,
        ),
        Binary(
            "cel-oracle",
            "cel-oracle",
            "k8s.io/dynamic-resource-allocation",
            ".",
            20,
            {"main.version": "{version}"},
            own_code=True,
        ),
        Binary(
            "kwok",
            "kwok",
            "sigs.k8s.io/kwok",
            "sigs.k8s.io/kwok/cmd/kwok",
            60,
            {"sigs.k8s.io/kwok/pkg/consts.Version": "{version}"},
            exact=False,
        ),
        _containerd("containerd", 60, ("--version",)),
        _containerd("containerd-shim-runc-v2", 5, ("-v",)),
        _containerd("ctr", 10, ("--version",)),
        Binary(
            "helm",
            "helm",
            "helm.sh/helm/v3",
            "helm.sh/helm/v3/cmd/helm",
            60,
            {"helm.sh/helm/v3/internal/version.version": "{version}"},
            version_args=("version", "--short"),
            exact=False,
        ),
        Binary(
            "promtool",
            "promtool",
            "github.com/prometheus/prometheus",
            "github.com/prometheus/prometheus/cmd/promtool",
            120,
            {"github.com/prometheus/common/version.Version": "{version}"},
            exact=False,
            # Service discovery for clouds is most of the code, and is not needed here.
            tags=("remove_all_sd",),
        ),
        # The linter of the workflows, and the generator of the charts' READMEs.
        Binary(
            "actionlint",
            "actionlint",
            "github.com/rhysd/actionlint",
            "github.com/rhysd/actionlint/cmd/actionlint",
            10,
            {"github.com/rhysd/actionlint.version": "{version}"},
            version_args=("-version",),
            exact=False,
        ),
        Binary(
            "helm-docs",
            "helm-docs",
            "github.com/norwoodj/helm-docs",
            "github.com/norwoodj/helm-docs/cmd/helm-docs",
            15,
            {"main.version": "{version}"},
            exact=False,
        ),
        # The scanner of images, for the release workflow.
        Binary(
            "grype",
            "grype",
            "github.com/anchore/grype",
            "github.com/anchore/grype/cmd/grype",
            400,
            {"main.version": "{version}"},
            exact=False,
        ),
    )
}

#: The components of a complete control plane.
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok")

#: The container runtime of a node: its daemon, what runs a container, and its client.
RUNTIME = ("containerd", "containerd-shim-runc-v2", "ctr")

#: The components of a node, and the tools of the end-to-end tests.
NODE = ("kubelet", "kube-proxy", *RUNTIME, "kubectl", "helm")


def tools_folder(binary: Binary, version: str | None = None) -> Path:
    """Return the module that pins a version of a binary; by default the main module.

    Raises:
        BuildError: no module pins that version.
    """
    return _module_file(binary, version).parent


def _module_files(binary: Binary) -> list[Path]:
    """Return the go.mod files that pin a binary, the default one first.

    Another minor has a folder of its own, or, where the code is ours and shared, a file
    `go-<minor>.mod` next to the default one.
    """
    default = TOOLS / binary.folder
    others = [folder / "go.mod" for folder in sorted(TOOLS.glob(f"{binary.folder}-[0-9]*"))]
    return [default / "go.mod", *others, *sorted(default.glob("go-[0-9]*.mod"))]


def _module_file(binary: Binary, version: str | None) -> Path:
    files = _module_files(binary)
    if version is None:
        return files[0]
    for file in files:
        if _pin(file, binary) == version:
            return file
    pinned = ", ".join(_pin(file, binary) for file in files)
    raise BuildError(f"{binary.name} {version} is not pinned in {TOOLS} (pinned: {pinned})")


def _minor_of(file: Path) -> str:
    """Return the minor in the name `go-1.36.mod`; empty for a go.mod."""
    return file.stem.removeprefix("go").removeprefix("-")


def pinned_version(name: str) -> str:
    """Return the default version of a binary, e.g. "v1.36.3"."""
    binary = BINARIES[name]
    return _pin(_module_file(binary, None), binary)


def pinned_versions(name: str) -> list[str]:
    """Return the versions of a binary that can be built, the default one first."""
    binary = BINARIES[name]
    return [_pin(file, binary) for file in _module_files(binary)]


def kubernetes_versions() -> list[str]:
    """Return the Kubernetes versions that can be built, the default one first."""
    return pinned_versions("kube-apiserver")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of this user's cached binaries."""
    root = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache"
    return Path(root) / "preemptive-scheduler" / "bin"


def cached_path(name: str, version: str, environ: Mapping[str, str]) -> Path:
    """Return the path in the cache of a binary."""
    binary = BINARIES[name]
    code = f"-{_fingerprint(TOOLS / binary.folder)}" if binary.own_code else ""
    return cache_folder(environ) / f"{name}-{version}{code}" / name


def _fingerprint(module: Path) -> str:
    """Return a fingerprint of the code of a module."""
    digest = hashlib.sha256()
    for path in sorted((*module.glob("*.go"), *module.glob("go*.mod"), *module.glob("go*.sum"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def reported_version(path: Path, binary: Binary) -> str | None:
    """Run a binary and return its version; None if it cannot be run or prints none."""
    try:
        answer = subprocess.run(
            [path, *binary.version_args], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    match = re.search(r"\bv?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)", answer.stdout)
    return f"v{match[1]}" if match else None


def find(
    name: str,
    version: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    report: Callable[[str], None] | None = None,
) -> Path:
    """Return the path of a binary; build it if it is not found.

    Args:
        name: a key of BINARIES.
        version: such as "v1.36.3"; None for the pinned default. Kubernetes' binaries and our own
            code have several.
        environ: the environment, with KUBEBUILDER_ASSETS, PATH, XDG_CACHE_HOME, HOME and the
            variables of Go.
        report: is called with lines of progress; None prints them to standard error.

    Raises:
        BuildError: it is not found and cannot be built; the message is one line.
    """
    binary = BINARIES[name]
    wanted = version or pinned_version(name)
    for candidate in _candidates(name, environ):
        if _matches(binary, reported_version(candidate, binary), wanted):
            return candidate
    cached = cached_path(name, wanted, environ)
    if not cached.exists():
        major, minor = re.findall(r"\d+", wanted)[:2]
        file = _module_file(binary, version)
        minor_file = _minor_of(file)
        recipe = Recipe(
            name=name,
            version=wanted,
            module=file.parent,
            modfile=file.name if minor_file else "",
            package=binary.package,
            stamp={
                variable: value.format(version=wanted, major=major, minor=minor)
                for variable, value in binary.stamp.items()
            },
            expected_seconds=binary.expected_seconds,
            tags=(*binary.tags, *([f"v{minor_file}"] if minor_file else [])),
        )
        build(
            recipe,
            cached,
            check=lambda path: _matches(binary, reported_version(path, binary), wanted),
            environ=environ,
            report=report or _to_stderr,
        )
    return cached


def _candidates(name: str, environ: Mapping[str, str]) -> list[Path]:
    assets = environ.get("KUBEBUILDER_ASSETS")
    candidates = []
    if assets and os.access(Path(assets) / name, os.X_OK):
        candidates.append(Path(assets).absolute() / name)
    on_path = shutil.which(name, path=environ.get("PATH", ""))
    if on_path:
        candidates.append(Path(on_path).absolute())
    return candidates


def _matches(binary: Binary, reported: str | None, wanted: str) -> bool:
    if reported is None or binary.exact:
        return reported == wanted
    return reported.split(".")[:2] == wanted.split(".")[:2]


def _pin(file: Path, binary: Binary) -> str:
    text = file.read_text()
    match = re.search(rf"^(?:require)?\s*{re.escape(binary.pin)} (v\S+)$", text, re.MULTILINE)
    if match is None:
        raise BuildError(f"{file} does not require {binary.pin}")
    return match[1]


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
