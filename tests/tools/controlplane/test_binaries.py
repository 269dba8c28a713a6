import textwrap
import threading
from pathlib import Path

import pytest

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.building import BuildError

VERSION = binaries.pinned_version("kube-apiserver")


class Machine:
    """A machine with folders for assets, PATH and the cache, all empty at first."""

    def __init__(self, root: Path) -> None:
        self.assets, self.path, self.cache = root / "assets", root / "path", root / "cache"
        self.assets.mkdir()
        self.path.mkdir()
        self.reports: list[str] = []
        self.environ = {
            "KUBEBUILDER_ASSETS": str(self.assets),
            "PATH": f"{self.path}",
            "XDG_CACHE_HOME": str(self.cache),
        }

    @property
    def cached(self) -> Path:
        folder = self.cache / "preemptive-scheduler" / "bin" / f"kube-apiserver-{VERSION}"
        return folder / "kube-apiserver"

    def find(self, name: str = "kube-apiserver", version: str | None = None) -> Path:
        return binaries.find(name, version, environ=self.environ, report=self.reports.append)

    def leftovers(self) -> list[str]:
        return sorted(path.name for path in self.cached.parent.parent.iterdir())

    def with_go(self, built_version: str, *, fails: bool = False) -> None:
        """Put a Go on PATH whose builds report this version."""
        answer = f"echo Kubernetes {built_version}"
        self.go = write(
            self.path / "go",
            f"""
            if [ "$1" = version ]; then echo go version go1.26.8 linux/amd64; exit; fi
            echo "$PWD" "$@" >> {self.path}/builds
            {"echo oh no; exit 1" if fails else ""}
            while [ "$1" != -o ]; do shift; done
            printf '#!/bin/sh\\n{answer}\\n' > "$2"
            /bin/chmod +x "$2"
            """,
        )

    def builds(self) -> list[str]:
        return (self.path / "builds").read_text().splitlines()


def write(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + textwrap.dedent(script))
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("echo Kubernetes v1.30.0", id="another version"),
        pytest.param(f"echo Kubernetes {VERSION}-alpha.1", id="a pre-release of the version"),
        pytest.param("echo nonsense", id="says no version"),
        pytest.param(f"echo Kubernetes {VERSION}; exit 1", id="fails"),
    ],
)
def test_path_comes_next_if_the_asset(machine, script):
    write(machine.assets / "kube-apiserver", script)
    wanted = write(machine.path / "kube-apiserver", f"echo Kubernetes {VERSION}")

    assert machine.find() == wanted


def test_the_cache_comes_after_path_and_is_not_asked_for_its_version(machine):
    write(machine.path / "kube-apiserver", "echo Kubernetes v1.30.0")
    wanted = write(machine.cached, "exit 1")

    assert machine.find() == wanted


def test_what_is_missing_is_built_into_the_cache(machine):
    machine.with_go(VERSION)

    assert machine.find() == machine.cached
    assert machine.leftovers() == ["build.lock", machine.cached.parent.name]
    (build,) = machine.builds()
    assert build.startswith(f"{binaries.TOOLS / 'kubernetes'} build -trimpath -ldflags -s -w -X ")
    assert f"version.gitVersion={VERSION}" in build
    assert build.endswith("k8s.io/kubernetes/cmd/kube-apiserver")


def test_a_failed_build_says_why_in_one_line_and_leaves_nothing(machine):
    machine.with_go(VERSION, fails=True)

    with pytest.raises(BuildError, match=f"go build of kube-apiserver {VERSION} failed: oh no$"):
        machine.find()

    assert not machine.cached.exists()
    assert not [name for name in machine.leftovers() if name.startswith("building")]


def test_a_build_of_the_wrong_version_is_refused(machine):
    machine.with_go("v1.0.0")

    with pytest.raises(BuildError, match=f"the kube-apiserver that was built is not {VERSION}"):
        machine.find()

    assert not machine.cached.exists()


def test_two_that_need_the_same_binary_build_it_once(machine):
    machine.with_go(VERSION)
    found = []
    threads = [threading.Thread(target=lambda: found.append(machine.find())) for _ in range(4)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [machine.cached] * 4
    assert len(machine.builds()) == 1


def test_a_version_that_is_not_pinned_is_refused_with_those_that_are(machine):
    pinned = ", ".join(binaries.kubernetes_versions())

    with pytest.raises(BuildError, match=rf"v1\.2\.3 is not pinned .*\(pinned: {pinned}\)"):
        machine.find(version="v1.2.3")


def test_code_of_our_own_is_built_for_each_release_it_is_pinned_to(machine):
    newest, older = binaries.pinned_versions("scheduler-oracle")
    minor = older.removeprefix("v").rpartition(".")[0]
    machine.with_go(newest)
    machine.find("scheduler-oracle")
    machine.with_go(older)
    machine.find("scheduler-oracle", older)

    default, other = machine.builds()
    assert "-modfile" not in default
    assert f" -modfile=go-{minor}.mod -tags v{minor} " in other
    assert other.partition(" ")[0] == default.partition(" ")[0]


def test_other_code_of_our_own_is_another_binary(tmp_path, monkeypatch):
    folder = tmp_path / binaries.BINARIES["scheduler-oracle"].folder
    write(folder / "main.go", "one")
    monkeypatch.setattr(binaries, "TOOLS", tmp_path)
    before = binaries.cached_path("scheduler-oracle", VERSION, {"HOME": "/home"})

    write(folder / "main.go", "two")

    assert binaries.cached_path("scheduler-oracle", VERSION, {"HOME": "/home"}) != before
