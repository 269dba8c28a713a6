"""The program: errors, exit codes, the demonstration, completion."""

import contextlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler import __version__
from scheduler.kubectl import completion, main
from scheduler.kubectl.output import complain

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a stand-in in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.api_stand_in"], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        with contextlib.suppress(BrokenPipeError):
            process.communicate()


def test_a_command_prints_and_ends_with_0(server, capsys):
    assert main.main(["policies", "--server", server]) == 0
    assert capsys.readouterr().out.startswith("POLICY")


def test_an_error_is_one_line_and_says_what_to_do(capsys):
    assert main.main(["policies", "--server", "http://127.0.0.1:1"]) == 1
    problem, *advice = capsys.readouterr().err.splitlines()
    assert problem.startswith("error: the scheduler cannot be reached")
    assert advice == ["check that it runs, and that it serves https at that address"]


def test_a_terminal_gets_problems_wrapped_at_words_but_no_command(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    prose, command = "word " * 9, "  kubectl " + "get " * 9
    for is_terminal in (True, False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal)
        complain(prose.strip())
        complain(command.rstrip())

    assert capsys.readouterr().err.splitlines() == [
        ("word " * 8).strip(), "word", command.rstrip(), prose.strip(), command.rstrip(),
    ]  # fmt: skip


def test_flags_may_stand_before_the_command(server, capsys):
    assert main.main(["--server", server, "-n", "prod", "why", "api-0"]) == 0
    assert capsys.readouterr().out.startswith("prod/api-0 has waited ")


def test_a_locale_without_the_characters_of_a_frame_is_no_error(server):
    ended = subprocess.run(
        [sys.executable, "-m", "scheduler.kubectl.main", "top", "--server", server],
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False,
    )  # fmt: skip

    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"node-0003 cpu ????" in ended.stdout


def test_the_version_of_the_plugin_needs_no_cluster(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    assert main.main(["version", "--client"]) == 0
    assert capsys.readouterr().out == f"plugin     {__version__}\n"


def test_replay_is_the_command_of_the_scheduler(capsys):
    assert main.main(["replay", "no-such-file.rec"]) == 2
    assert "no-such-file.rec" in capsys.readouterr().err


def test_a_reader_that_closes_the_pipe_is_no_error(server):
    command = f"{sys.executable} -m scheduler.kubectl.main preemptions --server {server} | true"
    ended = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (ended.stderr, ended.returncode) == ("", 141)


@pytest.mark.parametrize(
    ("argv", "first"),
    [
        ([], "usage: kubectl preemptive [-h] [-n NAMESPACE] COMMAND ..."),
        (["help"], "usage: kubectl preemptive [-h] [-n NAMESPACE] COMMAND ..."),
        *(
            (["help", name], f"usage: kubectl preemptive {name} [-h]")
            for name in ("why", "plan", "report", "policies", "stop")
        ),
        (["help", "replay"], "usage: preemptive-scheduler replay"),
    ],
    ids=" ".join,
)
def test_help_is_printed_and_ends_with_the_flags_of_all_commands(argv, first, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    try:
        code = main.main(argv)
    except SystemExit as ended:
        code = ended.code

    shown = capsys.readouterr().out
    assert code == 0
    assert shown.startswith(first)
    if "replay" not in argv:
        assert max(map(len, shown.splitlines())) <= 80
        assert shown.rstrip().split("\n\n")[-1].startswith("connection:\n  --kubeconfig FILE")


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["whi"], 'unknown command "whi", did you mean "why"?'),
        (["help", "polices"], 'unknown command "polices", did you mean "policies"?'),
        (["zzz"], 'unknown command "zzz"'),
        (["policies", "hist"], 'unknown action "hist", did you mean "history"?'),
        (["why", "x", "--nods"], 'unknown argument "--nods", did you mean "--nodes"?'),
        (["-n", "x"], "the following arguments are required: COMMAND"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_flags_are_one_line_and_where_help_is(argv, problem, capsys):
    with pytest.raises(SystemExit) as ended:
        main.main(argv)

    assert ended.value.code == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"error: {problem}"
    assert re.fullmatch(r"see kubectl preemptive( why| policies)? --help", second)


@pytest.mark.parametrize(
    ("words", "found", "directive"),
    [
        pytest.param(["p"], ["plan", "preemptions", "policies"], 4, id="commands"),
        pytest.param(["plan", "--d"], ["--diff", "--drain"], 4, id="flags"),
        pytest.param(["plan", "-f", ""], [], 0, id="files"),
        pytest.param(["why", "-o", "j"], ["json"], 4, id="values"),
        pytest.param(["completion", ""], ["bash", "zsh", "fish"], 4, id="shells"),
        pytest.param(["--kubeconfig", ""], [], 0, id="a file before the command"),
        pytest.param(["-n", "x", "to"], ["top"], 4, id="a command after a flag"),
        pytest.param(["replay", "x"], [], 0, id="recordings"),
        pytest.param(["help", "wh"], ["why"], 4, id="the command of a help"),
        pytest.param(["why", "web-0", ""], [], 4, id="nothing after the last argument"),
    ],
)
def test_words_are_completed(words, found, directive):
    assert completion.candidates(words) == (found, directive)


@pytest.mark.parametrize("named", ["flag", "environment"])
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["why", "-n", "prod", "api-"], ["api-0", "api-4", "api-8", "api-12"]),
        (["why", "--nodes", "-n", "prod", "api-1"], ["api-12"]),
        (["plan", "--drain", "node-000"], [f"node-000{n}" for n in range(10)]),
        (["preemptions", "api-1"], ["api-1", "api-10"]),
        (["preemptions", "train-1-"], ["train-1-0", "train-1-1"]),
        (["policies", "history", "t"], ["team-b"]),
        (["policies", "undo", "p"], ["protect-databases"]),
        (["preemptions", "-n", "pr"], ["prod"]),
        (["-n", "te"], ["team-a", "team-b"]),
    ],
    ids=" ".join,
)
def test_names_that_the_scheduler_knows_are_completed(server, monkeypatch, words, found, named):
    if named == "environment":
        monkeypatch.setenv("PREEMPTIVE_SCHEDULER_SERVER", server)
    else:
        words = ["--server", server, *words]

    names, directive = completion.candidates(words)

    assert (sorted(names), directive) == (sorted(found), 4)


def test_a_scheduler_that_does_not_answer_completes_nothing(monkeypatch):
    monkeypatch.setenv("PREEMPTIVE_SCHEDULER_SERVER", "http://127.0.0.1:1")

    assert completion.candidates(["why", ""]) == ([], 4)


def test_only_names_that_a_pod_can_have_are_completed(capsys, monkeypatch):
    """bash and zsh insert a candidate unquoted."""
    names = ["$(id)", "a;id", "a b", "\x1b]0;x\x07", "a\nb", "a\u202e", "a\n", "-a", "", "a.b-0"]

    class Hostile(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            view = {"schedulerName": "s", "phase": "active", "since": ""}
            items = [{"pod": {"namespace": "x", "name": name}, **view} for name in names]
            body = json.dumps({"items": items})
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Hostile) as answering:
        threading.Thread(target=answering.handle_request, daemon=True).start()
        address = f"http://127.0.0.1:{answering.server_port}"
        monkeypatch.setenv("PREEMPTIVE_SCHEDULER_SERVER", address)
        completion.main(["why", ""])

    assert capsys.readouterr().out.splitlines() == ["a.b-0", ":4"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash on PATH")
def test_bash_completes_with_the_script(tmp_path):
    """The function is called as bash calls it, with the words of the command line."""
    script = tmp_path / "completion.bash"
    script.write_text(completion.script("bash"))
    test = (
        f"source {script}; COMP_WORDS=(kubectl-preemptive pol); COMP_CWORD=1;"
        " _kubectl_preemptive; echo ${COMPREPLY[@]}"
    )
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    ended = subprocess.run(
        ["bash", "-c", test], env=environment, capture_output=True, text=True, check=False
    )

    assert ended.stdout == "policies\n", ended.stderr
