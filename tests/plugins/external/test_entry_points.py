"""Plugins of other packages: discovery, checks, and settings from the configuration."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.cli import configuration
from scheduler.cli.main import main
from scheduler.config.field_errors import ConfigError
from scheduler.plugins import registry
from scheduler.plugins.external import entry_points
from scheduler.plugins.external.entry_points import PackageError
from tests.support.packages import install
from tests.support.recordings import RecordedMachine

GOOD = """
class Plugin:
    name = "Mine"
    reasons = ("", "no")
    def __init__(self, args): self.args = args
    def filter_node(self, pod, node, pods): return 0
"""
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Mine, weight: 3}]}}
"""

Package = Callable[..., str]

CLUSTER = Path(__file__).parents[3] / "docs" / "examples" / "what-if-cluster.yaml"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """Install a package for the test; return its name."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def package(code: str = GOOD, **plugins: str) -> str:
        # Modules stay imported, so each test needs its own names.
        name = f"{tmp_path.parent.name}_{tmp_path.name}_{len(made)}".replace("-", "_")
        made.append(name)
        install(tmp_path, name, code, **(plugins or {"Mine": "Plugin"}))
        return name

    return package


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def test_without_packages_there_are_none():
    assert entry_points.discover() == {}


def test_a_plugin_is_found_with_its_package_and_its_points(package: Package):
    name = package()

    (found,) = entry_points.discover().values()

    assert (found.name, found.package) == ("Mine", f"{name} 1.0")
    assert found.points == {"filter"}


def test_every_method_has_its_extension_point(package: Package):
    package("""
    class Both:
        name = "Mine"
        def __init__(self, args): pass
        def compile_filter(self, pod, cluster, verdicts): return None
        def score_node(self, pod, node, pods): return 0
    """, Mine="Both")  # fmt: skip

    assert entry_points.discover()["Mine"].points == {"filter", "score"}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (("class Plugin", "import nowhere\nclass Plugin"), "cannot be imported: ModuleNotFound"),
        (("class Plugin:", "raise SystemExit(3)\nclass Plugin:"), "imported: SystemExit: 3"),
        (('"Mine"', '"Yours"'), "has the attribute `name` 'Yours', not 'Mine'"),
        (("self, args", "self"), "cannot be constructed with one argument"),
        (
            ("def filter_node", "def other"),
            "has none of the methods compile_filter, filter_node, compile_score, score_node",
        ),
        (
            ("self, pod, node, pods", "self, pod"),
            "has a method filter_node that cannot be called with",
        ),
        (("reasons =", "other ="), "has no `reasons`"),
        (('("", "no")', '("no",)'), "has no `reasons`"),
        (('("", "no")', '"no"'), "has no `reasons`"),
        (('"no"', '" "'), "has a reason that is not one line of text"),
        (('"no"', '"a\\nb"'), "has a reason that is not one line of text"),
        (
            ("    reasons", "    compile_filter = print\n    reasons"),
            "has both compile_filter and filter_node",
        ),
        (
            ("    reasons", "    pre_enqueue = print\n    reasons"),
            "has a method pre_enqueue, which is closed",
        ),
        (
            ("    reasons", "    events_to_register = 1\n    reasons"),
            "has a method events_to_register that cannot be called",
        ),
        (("class Plugin:", "Plugin = 1\nclass Other:"), "is not a class"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_an_object_that_is_no_plugin_is_reported_in_one_line(
    change: tuple[str, str], want: str, package: Package
):
    name = package(GOOD.replace(*change))

    with pytest.raises(PackageError) as raised:
        entry_points.discover()

    assert str(raised.value).startswith(f"package {name} 1.0: plugin Mine: {name}:Plugin ")
    assert want in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("taken", ["NodePorts", "EBSLimits", "PreemptiveScheduler"])
def test_a_name_of_kube_schedulers_is_taken(taken: str, package: Package):
    name = package(GOOD, **{taken: "Plugin"})

    with pytest.raises(PackageError) as raised:
        entry_points.discover()

    want = f"package {name} 1.0: plugin {taken}: kube-scheduler has a plugin of this name"
    assert str(raised.value) == want


def test_two_packages_cannot_share_a_name(package: Package):
    names = sorted([package(), package()])

    with pytest.raises(PackageError) as raised:
        entry_points.discover()

    assert str(raised.value) == (
        f"package {names[1]} 1.0: plugin Mine: package {names[0]} 1.0 has a plugin of this name too"
    )


def test_the_settings_of_a_profile_are_passed_as_a_mapping(package: Package, config: Path):
    package()
    config.write_text(CONFIG + "  pluginConfig: [{name: Mine, args: {a: [1, {b: c}]}}]\n")

    settings = configuration.read(str(config))

    (plugin,) = [
        each
        for each in registry.profiles(settings)["preemptive-scheduler"].filters
        if each.name == "Mine"
    ]
    assert dict(plugin._plugin.args) == {"a": [1, {"b": "c"}]}


def test_a_score_has_the_weight_of_the_configuration(package: Package, config: Path):
    package("""
    class Score:
        name = "Mine"
        def __init__(self, args): assert dict(args) == {}
        def score_node(self, pod, node, pods): return 7
    """, Mine="Score")  # fmt: skip

    (profile,) = registry.profiles(configuration.read(str(config))).values()

    assert {plugin.name: weight for plugin, weight in profile.scores}["Mine"] == 3
    assert "Mine" not in {each.name for each in profile.filters}


@pytest.mark.parametrize(
    ("change", "args", "want"),
    [
        (("", ""), "[1]", "the args in pluginConfig are not a mapping"),
        (("self.args = args", "args['a']"), "{}", "KeyError: 'a'"),
        (("self.args = args", "raise SystemExit"), "{}", "SystemExit"),
        (
            ("    reasons", "    def events_to_register(self): return ['no']\n    reasons"),
            "{}",
            "TypeError: events_to_register did not return instances of ClusterEventWithHint",
        ),
    ],
    ids=["no mapping", "the plugin objects", "the plugin gives up", "events of another type"],
)
def test_settings_that_a_plugin_does_not_like_are_an_error_of_its_package(
    change: tuple[str, str], args: str, want: str, package: Package, config: Path
):
    name = package(GOOD.replace(*change) if change[0] else GOOD)
    config.write_text(CONFIG + f"  pluginConfig: [{{name: Mine, args: {args}}}]\n")

    with pytest.raises(PackageError) as raised:
        configuration.read(str(config))

    begin = f"package {name} 1.0: plugin Mine: profile preemptive-scheduler: {want}"
    assert str(raised.value).startswith(begin)


def test_a_negative_weight_is_refused(package: Package, config: Path):
    package(GOOD + "    def score_node(self, pod, node, pods): return 0\n")
    config.write_text(CONFIG.replace("weight: 3", "weight: -1"))

    with pytest.raises(PackageError, match="its weight is -1, which is not positive"):
        configuration.read(str(config))


def test_a_plugin_that_no_package_advertises_does_not_exist(package: Package, config: Path):
    package()
    config.write_text(CONFIG.replace("Mine", "Mines"))

    with pytest.raises(ConfigError) as raised:
        configuration.read(str(config))

    (problem,) = raised.value.problems
    assert problem.message == 'plugin "Mines" does not exist, did you mean "Mine"?'


def test_check_config_names_the_package_of_a_plugin(
    package: Package, config: Path, capsys: pytest.CaptureFixture[str]
):
    name = package()

    assert main(["check-config", str(config)]) == 0

    shown = capsys.readouterr().out
    assert f"  plugin Mine: package {name} 1.0\n" in shown
    assert "    filter: " in shown


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["check-config"], 1),
        (["run", "--config"], 2),
        (["plan", "-f", str(CLUSTER), "--config"], 1),
        (["replay", "RECORDING", "--config"], 2),
    ],
    ids=["check-config", "run", "plan", "replay"],
)
def test_every_command_refuses_a_broken_package(
    arguments: list[str],
    code: int,
    package: Package,
    config: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    recording = tmp_path / "incident.rec"
    RecordedMachine(recording)
    arguments = [str(recording) if each == "RECORDING" else each for each in arguments]
    name = package("raise OSError('gone')\n")

    assert main([*arguments, str(config)]) == code

    said = capsys.readouterr()
    (line,) = (said.out + said.err).splitlines()
    assert f"package {name} 1.0: plugin Mine: {name}:Plugin cannot be imported: OSError" in line
