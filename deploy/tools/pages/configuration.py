"""Generates the page `docs/configuration.md` from the classes that hold the settings.

    python -m deploy.tools.pages.configuration > docs/configuration.md

Names, defaults and meanings come from those classes: the comment above each field is its text.
A test fails if the page is out of date.
"""

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from scheduler.config import args, settings
from scheduler.config.args import TYPES
from scheduler.config.object_codec import Wire
from scheduler.config.plugin_catalogue import IN_TREE, Point, default_plugins, with_points_of
from scheduler.model.releases import V1_37

__all__ = ["page"]

_INTRODUCTION = """\
# Configuration

For administrators who want other scores, profiles, plugins or extenders: every field of the
configuration file. `preemptive-scheduler check-config FILE` finds all mistakes in it.

`run --config FILE` takes a `KubeSchedulerConfiguration` (`kubescheduler.config.k8s.io/v1`), the
same file that kube-scheduler takes; so do `plan`, `replay` and `check-config`. Without a file, all
defaults apply. In the chart it is the value `config`. Everything else is set by flags:
[cli.md](cli.md). Preemption policies are objects of the cluster:
[preemption-policy.md](preemption-policy.md).

```yaml
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: preemptive-scheduler
    pluginConfig:
      - name: NodeResourcesFit
        args:
          scoringStrategy: {type: MostAllocated}
```

| command | what it does |
|---|---|
| `preemptive-scheduler check-config config.yaml` | all errors at once, with their lines |
| `preemptive-scheduler check-config config.yaml --print` | the effective configuration |

An unknown field is an error, and so is an invalid value: the scheduler does not start, and reports
where the error is. Every field of kube-scheduler's v1 is accepted. Fields *without effect* are
accepted so that both schedulers can use the same file; [differences.md](differences.md) says why
they have none. Durations are written as in `1m30s`.

This page is generated (`python -m deploy.tools.pages.configuration > docs/configuration.md`).
"""

_PROFILES = """\
## profiles

A list of profiles. A pod selects one by its `spec.schedulerName`. By default there is one, which is
called `preemptive-scheduler`.

| field | default | meaning |
|---|---|---|
| `schedulerName` | `"preemptive-scheduler"` | {scheduler_name} Unique in the \
file; required if there are several profiles. |
| `percentageOfNodesToScore` | none | {percentage} |
| `plugins` | the defaults below | By extension point, `enabled: [{{name, weight}}]` and \
`disabled: [{{name}}]`; `disabled: [{{name: "*"}}]` disables all defaults. `multiPoint` stands \
for all points that a plugin implements; the set of a single point takes precedence over it. All \
profiles must sort the queue by the same plugin. |
| `pluginConfig` | none | A list of `{{name, args}}`: settings of single plugins, \
see below. |

### Extension points and plugins

The plugins that are enabled by default, in the order in which they run, with their extension
points. Other plugins can be enabled: {others}; and out-of-tree plugins, see
[plugins.md](plugins.md). `AzureDiskLimits`, `CinderLimits`, `EBSLimits` and `GCEPDLimits` are
rejected, because this version of the file format has removed them.

| plugin | weight of its score | extension points |
|---|---|---|
"""

_ARGS = """\
## pluginConfig

The `args` of each plugin. `apiVersion` and `kind` are optional.
"""

_SECTIONS: Final[Mapping[str, type]] = {
    "leaderElection": settings.LeaderElection,
    "clientConnection": settings.ClientConnection,
    "extenders": settings.Extender,
    "extenders[].tlsConfig": settings.ExtenderTLS,
    "extenders[].managedResources": settings.ManagedResource,
}
#: The types of the nested objects of args, by plugin and by path in its args.
_PARTS: Final[Mapping[str, Mapping[str, type]]] = {
    "NodeResourcesBalancedAllocation": {"resources[]": args.ResourceWeight},
    "NodeResourcesFit": {
        "scoringStrategy": args.ScoringStrategy,
        "scoringStrategy.resources[]": args.ResourceWeight,
        "scoringStrategy.requestedToCapacityRatio.shape[]": args.ShapePoint,
    },
}


def page() -> str:
    """Return the page."""
    return "\n".join(_blocks()).rstrip() + "\n"


def main() -> None:
    """Print the page."""
    sys.stdout.write(page())


def _blocks() -> Iterator[str]:
    yield _INTRODUCTION
    yield "## The file\n"
    yield from _table(settings.Settings)
    yield "| `profiles` | one | See [profiles](#profiles). |"
    yield "| `apiVersion`, `kind` | | Must have the values above. |\n"
    for name, kind in _SECTIONS.items():
        yield f"## {name}\n\n{_summary(kind)}\n"
        yield from _table(kind)
        yield ""
    yield from _profiles()
    yield _ARGS
    for name, kind in TYPES.items():
        yield f"### {name}\n\n{_summary(kind)}\n"
        yield from _table(kind)
        for part, part_kind in _PARTS.get(name, {}).items():
            yield f"\nIn `{part}`:\n"
            yield from _table(part_kind)
        yield ""


def _profiles() -> Iterator[str]:
    texts = _texts(settings.ProfileSettings)
    default = [name for name, _ in default_plugins(V1_37)]
    catalog = with_points_of(V1_37, IN_TREE)
    yield _PROFILES.format(
        scheduler_name=texts["scheduler_name"],
        percentage=texts["percentage_of_nodes_to_score"],
        others=", ".join(f"`{name}`" for name in sorted(IN_TREE) if name not in default),
    ).rstrip("\n")
    for name, weight in default_plugins(V1_37):
        points = ", ".join(f"`{point}`" for point in Point if point in catalog[name])
        scored = str(weight or 1) if Point.SCORE in catalog[name] else ""
        yield f"| `{name}` | {scored} | {points} |"
    yield ""


def _table(kind: type) -> Iterator[str]:
    texts = _texts(kind)
    yield "| field | default | meaning |\n|---|---|---|"
    for attribute, default, wire in _fields(kind):
        meaning = texts.get(attribute, f"See [{wire.name}](#{wire.name.lower()}).")
        yield f"| `{wire.name}` | {_shown(wire, default)} | {meaning} |"


def _fields(kind: type) -> Iterator[tuple[str, Any, Wire]]:
    for field in dataclasses.fields(kind):
        if "wire" in field.metadata:
            yield field.name, field.default, field.metadata["wire"]


def _shown(wire: Wire, default: Any) -> str:
    value = wire.codec.write(default)
    if default is None or value in (None, [], "", {}):
        return "none"
    return "below" if isinstance(value, dict) else f"`{json.dumps(value)}`"


def _summary(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\nSource:")[0]


def _texts(kind: type) -> dict[str, str]:
    """Return the comments above the fields of a class and of its base classes."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        source = inspect.getsource(base)
        matches = re.finditer(r"((?:^    #: .*\n)+)    (\w+):", source, re.MULTILINE)
        for comment, attribute in (match.groups() for match in matches):
            words = " ".join(line.strip().removeprefix("#: ") for line in comment.splitlines())
            texts[attribute] = _in_the_file(words).replace("|", "\\|")
    return texts


def _in_the_file(words: str) -> str:
    """Return a comment with the names of the file: fields in camel case, null for `None`."""
    named = re.sub(r"`\*?[a-z]+(?:_[a-z]+)+`|`\*_[a-z]+`", lambda name: _camel(name[0]), words)
    return re.sub(r"\bNone\b", "`null`", named)


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda letter: letter[1].upper(), name.replace("_seconds`", "`"))


if __name__ == "__main__":
    main()
