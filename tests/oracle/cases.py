"""Clusters as files: what a disagreement is kept as, and what is compared again each time.

A file is YAML with Kubernetes objects. Lines of comment at the top say what it shows; a
KubeSchedulerConfiguration among the objects is used, and `# settle` in the first line has the
cluster decided until nothing changes.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tests.oracle.generate import Cluster

__all__ = ["FOLDER", "read", "text"]

#: Minimal clusters on which the two sides once disagreed.
FOLDER = Path(__file__).with_name("cases")

_SETTLE = "# settle"
_CONFIG = "KubeSchedulerConfiguration"


class _Loader(yaml.SafeLoader):
    """Reads time stamps as text, as JSON would have them."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """Writes no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def read(path: Path) -> Cluster:
    """Return the cluster of a file."""
    content = path.read_text(encoding="utf-8")
    documents = [each for each in yaml.load_all(content, Loader=_Loader) if each is not None]
    config = next((each for each in documents if each["kind"] == _CONFIG), None)
    objects = [each for each in documents if each["kind"] != _CONFIG]
    return Cluster(path.stem, objects, config, settle=content.startswith(_SETTLE))


def text(cluster: Cluster, comment: Iterable[str]) -> str:
    """Return a cluster as the text of a file, with lines that say what it shows."""
    documents = [*([cluster.config] if cluster.config else []), *cluster.objects]
    lines = [_SETTLE] if cluster.settle else []
    lines += [f"# {line}" for each in comment for line in each.splitlines()]
    body: str = yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=100
    )
    return "\n".join([*lines, body])
