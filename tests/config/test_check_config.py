"""The command `check-config`."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from scheduler.cli import check_config
from scheduler.config import load

_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

Check = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Run the command on a text; return its exit code and what it wrote, `FILE` for the path."""

    def check(text: str | bytes | None, *options: str) -> tuple[int, str, str]:
        file = tmp_path / "config.yaml"
        if text is not None:
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        parser = argparse.ArgumentParser()
        check_config.add_parser(parser.add_subparsers())
        args = parser.parse_args(["check-config", str(file), *options])
        code = args.func(args)
        out, err = capsys.readouterr()
        return code, out.replace(str(file), "FILE"), err.replace(str(file), "FILE")

    return check


def test_a_good_file_gets_a_summary(check):
    text = f"""{_HEAD}
profiles:
- schedulerName: a
- schedulerName: b
  plugins:
    score: {{disabled: [{{name: "*"}}], enabled: [{{name: ImageLocality, weight: 3}}]}}
    reserve: {{disabled: [{{name: "*"}}]}}
extenders:
- urlPrefix: http://x
- {{urlPrefix: http://y, ignorable: true}}
"""

    assert check(text) == (
        0,
        "FILE: ok\n"
        "  profile a: default plugins\n"
        "  profile b, changed:\n"
        "    score: ImageLocality 3\n"
        "    reserve: none\n"
        "  reference: auto\n"
        "  leader election: lease (own namespace)/preemptive-scheduler\n"
        "  extender http://x\n"
        "  extender http://y, ignorable\n",
        "",
    )


@pytest.mark.parametrize(
    ("election", "want"),
    [
        pytest.param("leaderElect: false", "off", id="without election"),
        pytest.param("resourceNamespace: here", "lease here/preemptive-scheduler", id="with it"),
    ],
)
def test_the_summary_shows_leader_election(check, election, want):
    _, out, _ = check(f"{_HEAD}leaderElection: {{{election}}}\n")

    assert f"leader election: {want}\n" in out


def test_every_problem_gets_a_line(check):
    assert check(f"{_HEAD}parallelism: 0\nfoo: 1\n") == (
        1,
        "FILE:3: parallelism: Invalid value: 0: should be an integer value greater than zero\n"
        'FILE:4: foo: unknown field "foo"\n',
        "",
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(None, "FILE: No such file or directory\n", id="no file"),
        pytest.param(
            "a: 1\nb: [\n",
            "FILE:3: not YAML: expected the node content, but found '<stream end>' at column 1\n",
            id="no YAML",
        ),
        pytest.param(
            b"a: \xff\n", "FILE:1: not UTF-8: invalid start byte\n", id="another encoding"
        ),
    ],
)
def test_an_unreadable_file_gets_one_line(check, text, want):
    assert check(text) == (2, want, "")


def test_the_effective_configuration_can_be_printed(check):
    code, out, err = check(f"{_HEAD}parallelism: 4\n", "--print")

    assert (code, err) == (0, "")
    assert yaml.safe_load(out)["parallelism"] == 4
    assert load.parse(out, source="printed") == load.parse(
        f"{_HEAD}parallelism: 4\n", source="file"
    )


def test_nothing_but_the_configuration_goes_to_standard_output(check):
    code, out, err = check(f"{_HEAD}parallelism: 0\n", "--print")

    assert (code, out) == (1, "")
    assert err.startswith("FILE:3: parallelism: ")
