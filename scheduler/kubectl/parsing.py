"""The flags and commands of `kubectl preemptive`, in kubectl's habits."""

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from scheduler.kubectl import plan_input
from scheduler.web_console.target import COLOURS

__all__ = ["COMMANDS", "common_flags", "parser"]

DESCRIPTION: Final = """\
Query the preemptive scheduler of a cluster: why a pod is pending, what a change
would do, and what preemption did; and stop all preemption.
The scheduler is reached by port-forward, with the credentials of the
kubeconfig.
"""
EXAMPLES: Final = """\
examples:
  kubectl preemptive why web-0 -n prod
      why a pod waits and what would help; who evicted it; where it runs
  kubectl preemptive plan -f deployment.yaml
      what would happen if this was applied; exit code 3: a pod would be evicted
  kubectl preemptive top
      live view of queue, nodes and preemptions
  kubectl preemptive console
      the same and more, in a browser
  kubectl preemptive stop --reason "incident 4711"
      evict no pod any more, until kubectl preemptive resume

environment: KUBECONFIG, PREEMPTIVE_SCHEDULER_NAMESPACE,
  PREEMPTIVE_SCHEDULER_SERVER, NO_COLOR
exit codes: 0 done; 1 an error; 2 wrong flags; 3 to 6: see plan --help
"""
WHY: Final = """\
Show where a pod is, and why. Of one that waits: what the nodes say, and what
would help. Of one that was evicted: when, from where, for whom, by which rule,
and what replaced it.
"""
PLAN: Final = """\
Show where the pods of these objects would run if they were applied now, and
which pods would be evicted for them. Workloads (Deployment, Job, StatefulSet
and so on) become pods; policies replace those of the same name. Nothing is
applied.
"""
POLICIES: Final = """\
List preemption policies: whom each limits, what it allows and has spent, and
what it has refused. `policies history NAME` lists the last five generations
that the scheduler accepted, and what changed. `policies undo NAME` prints the
policy of the generation before; it changes nothing:
  kubectl preemptive policies undo NAME | kubectl replace -f -
"""
REPORT: Final = """\
Show what preemption cost in a span of time: the pods that were evicted, for
whom, the work that they lost, and how much of it was lost for nothing.
TIME is a time of day as 20:00 (the last one, in your time zone), a time ago as
12h, or a date or time as in RFC 3339.
"""
STOP: Final = """\
Stop all preemption: no pod is evicted any more, and pods are scheduled as
before where they fit. It writes the PreemptionPolicy `emergency-stop`, waits
until the scheduler confirms it, and is in force until `kubectl preemptive
resume`, also for later leaders.
"""
#: The commands in the order of the help.
COMMANDS: Final = (
    "why", "plan", "preemptions", "report", "top", "policies", "shadow", "stop", "resume",
    "console",
    "record", "replay", "version", "completion", "help",
)  # fmt: skip
#: Titles of parts of a help, and where they come: commands first, flags of all commands last.
_COMMANDS, _CONNECTION = "commands", "connection"
_ORDER: Final = {_COMMANDS: 0, _CONNECTION: 2}


class _Parser(argparse.ArgumentParser):
    """Has the flags of all commands at the end of its help, and errors of one line."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if not action.option_strings and action.choices and value not in action.choices:
            self.error(_unknown(action.dest, value, action.choices))
        super()._check_value(action, value)

    def parsed(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the arguments, or end the process with what is wrong."""
        found, unknown = self.parse_known_args(words)
        if unknown:
            command = self.commands.get(getattr(found, "command", ""), self)
            flags = [flag for action in command._actions for flag in action.option_strings]
            command.error(_unknown("argument", unknown[0], flags))
        return found

    @property
    def commands(self) -> dict[str, argparse.ArgumentParser]:
        """The parsers of its commands, by name."""
        found = (each for each in self._actions if isinstance(each, argparse._SubParsersAction))
        return dict(next(found).choices)

    def error(self, message: str) -> NoReturn:
        print(f"error: {message}\nsee {self.prog} --help", file=sys.stderr)
        sys.exit(2)

    def format_usage(self) -> str:
        formatter = self._get_formatter()
        everywhere = [
            action
            for group in self._action_groups
            if group.title == _CONNECTION
            for action in group._group_actions
        ]
        own = [action for action in self._actions if action not in everywhere]
        formatter.add_usage(self.usage, own, self._mutually_exclusive_groups)
        return formatter.format_help()

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        for group in sorted(self._action_groups, key=lambda each: _ORDER.get(each.title or "", 1)):
            if group.title == _CONNECTION:
                formatter.add_text(self.epilog)
            formatter.start_section(group.title)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        return f"{self.format_usage()}\n{formatter.format_help()}"


def _unknown(what: str, value: str, known: Any) -> str:
    near = difflib.get_close_matches(value, known, n=1)
    return f'unknown {what} "{value}"' + (f', did you mean "{near[0]}"?' if near else "")


def parser() -> _Parser:
    """Return the parser of the whole command line."""
    top = _Parser(
        prog="kubectl preemptive",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(title=_COMMANDS, required=True, metavar="COMMAND", dest="command")
    _add_common(top, first=True)
    common = argparse.ArgumentParser(add_help=False)
    _add_common(common, first=False)
    for add in (_why, _plan, _preemptions, _report, _top, _policies, _shadow, _stop, _resume,
                _console,
                _record, _version):  # fmt: skip
        add(commands, common)
    replay = commands.add_parser(
        "replay", help="repeat the decisions of a recording", add_help=False
    )
    replay.add_argument("rest", nargs=argparse.REMAINDER)
    completion = commands.add_parser("completion", help="print the completion script of a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    help_of = commands.add_parser("help", help="show the help of a command")
    help_of.add_argument("about", nargs="?", default="", metavar="COMMAND")
    return top


def common_flags() -> argparse.ArgumentParser:
    """Return a parser of the flags that each command has."""
    found = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_common(found, first=True)
    return found


def _add_common(target: argparse.ArgumentParser, *, first: bool) -> None:
    """Add the flags that each command has; they may stand before it, too."""
    default: Any = "" if first else argparse.SUPPRESS
    target.add_argument(
        "-n", "--namespace", metavar="NAMESPACE", default=default,
        help="namespace of pods (default: that of the context)",
    )  # fmt: skip
    group = target.add_argument_group(_CONNECTION)
    for names, metavar, text in (
        (("--kubeconfig",), "FILE", "kubeconfig (default: $KUBECONFIG, ~/.kube/config)"),
        (("--context",), "NAME", "context of the kubeconfig"),
        (("--scheduler-namespace",), "NAME",
         "namespace of the scheduler (default: preemptive-scheduler)"),
        (("--scheduler-lease",), "NAME", "its Lease, where the namespace has several"),
        (("--server",), "URL", "address of the scheduler, instead of a port-forward"),
        (("--token-file",), "FILE", "with --server: file with the bearer token to send"),
        (("--certificate-authority",), "FILE",
         "verify the scheduler's certificate with this authority"),
        (("--tls-server-name",), "NAME", "name in that certificate (default: that of its Service)"),
    ):  # fmt: skip
        group.add_argument(*names, metavar=metavar, help=text, default=default)


def _command(
    commands: Any, common: argparse.ArgumentParser, name: str, text: str, **more: Any
) -> Any:
    return commands.add_parser(
        name,
        help=text,
        description=more.pop("description", text[0].upper() + text[1:] + "."),
        parents=[common],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **more,
    )


def _output(command: Any, *forms: str) -> None:
    command.add_argument("-o", "--output", choices=forms, default="", help="output format")


def _why(commands: Any, common: argparse.ArgumentParser) -> None:
    command = _command(
        commands, common, "why", "show why a pod waits or was evicted, and what would help",
        description=WHY,
    )  # fmt: skip
    command.add_argument(
        "pod", nargs="?", default="", metavar="POD",
        help="POD, NAMESPACE/POD, KIND/NAME as deploy/web, or the uid of a pod",
    )  # fmt: skip
    command.add_argument(
        "-l", "--selector", dest="labels", default="", metavar="SELECTOR",
        help="the pods with these labels instead",
    )  # fmt: skip
    command.add_argument("--nodes", action="store_true", help="add the result for each node")
    _output(command, "wide", "json", "yaml")


def _plan(commands: Any, common: argparse.ArgumentParser) -> None:
    command = _command(
        commands, common, "plan", "show what would happen if objects were applied",
        description=PLAN, epilog=plan_input.EXIT_CODES,
    )  # fmt: skip
    plan_input.add_flags(command)


def _preemptions(commands: Any, common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "preemptions", "list preemptions under way and past")
    command.add_argument(
        "name", nargs="?", default="", metavar="NAME",
        help="in detail: those of a preemptor or victim, as NAME, NAMESPACE/NAME or UID; or an ID",
    )  # fmt: skip
    command.add_argument(
        "-w", "--watch", action="store_true", help="keep running and print each change"
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument("--active", action="store_true", help="only those under way")
    which.add_argument("--past", action="store_true", help="only those that ended")
    command.add_argument(
        "-A", "--all-namespaces", action="store_true",
        help="list preemptions of all namespaces (the default); -n NAME limits the list to one"
        " namespace",
    )  # fmt: skip
    _output(command, "wide", "json", "yaml")


def _report(commands: Any, common: argparse.ArgumentParser) -> None:
    command = _command(
        commands, common, "report", "show what preemption cost in a span of time",
        description=REPORT,
    )  # fmt: skip
    # Else `-12h` would be taken for a flag.
    command._negative_number_matcher = re.compile(r"-\d+[smhdw]?$")
    command.add_argument(
        "--since",
        default="",
        metavar="TIME",
        help="its beginning (default: 24 hours before it ends)",
    )
    command.add_argument("--until", default="", metavar="TIME", help="its end (default: now)")
    _output(command, "md", "csv", "html", "json", "yaml")


def _top(commands: Any, common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "top", "show queue, nodes and preemptions live")
    command.add_argument("--once", action="store_true", help="print one frame, as in a pipe")
    command.add_argument(
        "--interval", type=_seconds, default=2.0, metavar="SECONDS", help="default: 2"
    )


def _seconds(text: str) -> float:
    try:
        return max(0.5, float(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not a number of seconds: {text!r}") from error


def _policies(commands: Any, common: argparse.ArgumentParser) -> None:
    command = _command(
        commands, common, "policies", "list preemption policies: what they allow and have spent",
        description=POLICIES,
    )  # fmt: skip
    command.add_argument(
        "action", nargs="?", choices=("history", "undo"),
        help="history: list the accepted generations of a policy; undo: print the one before",
    )  # fmt: skip
    command.add_argument("name", nargs="?", default="", metavar="NAME", help="of the policy")
    _output(command, "wide", "json", "yaml")


def _shadow(commands: Any, common: argparse.ArgumentParser) -> None:
    command = _command(
        commands, common, "shadow",
        "compare another scheduler with what this one would have done, in shadow mode",
    )  # fmt: skip
    _output(command, "wide", "json", "yaml")


def _stop(commands: Any, common: argparse.ArgumentParser) -> None:
    command = _command(
        commands, common, "stop", "stop all preemption; pods are still scheduled",
        description=STOP,
        epilog="exit codes: 0 the scheduler has confirmed it; 1 it has not, or another error",
    )  # fmt: skip
    command.add_argument("--reason", default="", metavar="TEXT", help="why; the held pods show it")
    command.add_argument(
        "--timeout", type=_seconds, default=30.0, metavar="SECONDS",
        help="how long to wait for the scheduler to confirm it (default: 30)",
    )  # fmt: skip


def _resume(commands: Any, common: argparse.ArgumentParser) -> None:
    _command(commands, common, "resume", "end a stop of all preemption")


def _console(commands: Any, common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "console", "serve the console on 127.0.0.1 and open it")
    command.add_argument("--port", type=int, default=0, metavar="PORT", help="default: a free one")
    command.add_argument("--no-browser", action="store_true", help="only print address and key")
    command.add_argument(
        "--color", default="", choices=COLOURS,
        help="mark the page with this colour (default: one that follows from the context's name)",
    )  # fmt: skip


def _record(commands: Any, common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "record", "fetch a recording of the last minutes")
    command.add_argument("--last", default="15m", metavar="DURATION", help="default: 15m")
    command.add_argument(
        "-o", "--output", dest="file", required=True, metavar="FILE",
        help="file to write; - is standard output",
    )  # fmt: skip


def _version(commands: Any, common: argparse.ArgumentParser) -> None:
    command = _command(commands, common, "version", "print the versions of plugin and scheduler")
    command.add_argument("--client", action="store_true", help="only that of the plugin")
    _output(command, "json", "yaml")
