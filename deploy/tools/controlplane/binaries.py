"""Where the binaries of the control plane, and helm, come from.

In this order: the folder named by KUBEBUILDER_ASSETS, PATH, a cache of this user, and at last a
build from the Go modules pinned below `tools/` (see `building`). The first two count only if the
binary reports the wanted version. The pins are the `require` lines of the go.mod files: nothing
else names a version.
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
    """A binary that we know how to get."""

    name: str
    #: Folder below `tools/` with the Go module; other minors of Kubernetes live beside it as
    #: `<folder>-<minor>`.
    folder: str
    #: The required module whose version is the version of the binary.
    pin: str
    #: What `go build` builds.
    package: str
    #: Build time on two quiet cores with an empty build cache, for the progress line.
    expected_seconds: int
    #: Variables that get the version stamped in; {version}, {major} and {minor} are filled in.
    stamp: Mapping[str, str]
    #: How to ask for the version.
    version_args: tuple[str, ...] = ("--version",)
    #: False if another patch release of the same minor does as well.
    exact: bool = True
    #: Whether the code is in the folder itself: then a change of it is another binary.
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
            "kwok",
            "kwok",
            "sigs.k8s.io/kwok",
            "sigs.k8s.io/kwok/cmd/kwok",
            60,
            {"sigs.k8s.io/kwok/pkg/consts.Version": "{version}"},
            exact=False,
        ),
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
            # Service discovery for clouds is most of the code, and no rule needs it.
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
    )
}

#: What a control plane with all its parts runs.
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok")

#: What a node runs, and what the end-to-end tests operate the cluster with.
NODE = ("kubelet", "kube-proxy", "kubectl", "helm")


def tools_folder(binary: Binary, version: str | None = None) -> Path:
    """Return the module that pins a binary: the default one, or the one for this version's minor.

    Raises:
        BuildError: no module pins that version.
    """
    default = TOOLS / binary.folder
    if version is None:
        return default
    folders = [default, *sorted(TOOLS.glob(f"{binary.folder}-*"))]
    for folder in folders:
        if _pin(folder, binary) == version:
            return folder
    pinned = ", ".join(_pin(folder, binary) for folder in folders)
    raise BuildError(f"{binary.name} {version} is not pinned in {TOOLS} (pinned: {pinned})")


def pinned_version(name: str) -> str:
    """Return the default version of a binary, e.g. "v1.36.3"."""
    binary = BINARIES[name]
    return _pin(TOOLS / binary.folder, binary)


def kubernetes_versions() -> list[str]:
    """Return the Kubernetes versions that can be built, the default one first."""
    binary = BINARIES["kube-apiserver"]
    folders = [TOOLS / binary.folder, *sorted(TOOLS.glob(f"{binary.folder}-*"))]
    return [_pin(folder, binary) for folder in folders]


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of this user's cached binaries."""
    root = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache"
    return Path(root) / "preemptive-scheduler" / "bin"


def cached_path(name: str, version: str, environ: Mapping[str, str]) -> Path:
    """Return where a binary of a version is kept once it is built."""
    binary = BINARIES[name]
    code = f"-{_fingerprint(TOOLS / binary.folder)}" if binary.own_code else ""
    return cache_folder(environ) / f"{name}-{version}{code}" / name


def _fingerprint(module: Path) -> str:
    """Return a fingerprint of the code of a module."""
    digest = hashlib.sha256()
    for path in sorted((*module.glob("*.go"), *module.glob("go.*"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def reported_version(path: Path, binary: Binary) -> str | None:
    """Run a binary and read its version, None if it cannot be run or says something else."""
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
    """Return the path of a binary, building it if there is no other way.

    Args:
        name: a key of BINARIES.
        version: "v1.36.3"; None for the pinned default. Only Kubernetes' own binaries have several.
        environ: holds KUBEBUILDER_ASSETS, PATH, XDG_CACHE_HOME, HOME and Go's variables.
        report: takes the lines of progress; standard error if None.

    Raises:
        BuildError: it is neither here nor can it be built; says why in one line.
    """
    binary = BINARIES[name]
    wanted = version or pinned_version(name)
    for candidate in _candidates(name, environ):
        if _matches(binary, reported_version(candidate, binary), wanted):
            return candidate
    cached = cached_path(name, wanted, environ)
    if not cached.exists():
        major, minor = re.findall(r"\d+", wanted)[:2]
        recipe = Recipe(
            name=name,
            version=wanted,
            module=tools_folder(binary, version),
            package=binary.package,
            stamp={
                variable: value.format(version=wanted, major=major, minor=minor)
                for variable, value in binary.stamp.items()
            },
            expected_seconds=binary.expected_seconds,
            tags=binary.tags,
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


def _pin(folder: Path, binary: Binary) -> str:
    text = (folder / "go.mod").read_text()
    match = re.search(rf"^(?:require)?\s*{re.escape(binary.pin)} (v\S+)$", text, re.MULTILINE)
    if match is None:
        raise BuildError(f"{folder / 'go.mod'} does not require {binary.pin}")
    return match[1]


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
