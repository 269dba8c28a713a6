"""The stories: that their commands can be carried out and pasted."""

import shlex

import pytest

from deploy.tools.demo import __main__ as demo
from deploy.tools.demo import commands
from deploy.tools.demo.stories import STORIES, TRY
from scheduler.kubectl import parsing

SCENES = [*TRY, *(scene for story in STORIES.values() for scene in story.scenes)]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.command)
def test_a_command_can_be_carried_out_and_its_files_exist(scene):
    program, *words = shlex.split(scene.command.format(pod="pod", node="node"))

    if program == "preemptive":
        given = parsing.parser().parse_args(words)
        files = getattr(given, "files", [])
    else:
        given = commands._KUBECTL.parse_args(words)
        files = [given.name] if given.verb == "apply" else []
    assert [name for name in files if not (commands.ROOT / name).is_file()] == []
    assert program in {"preemptive", "kubectl"}


def test_a_wrong_story_lists_all(capsys):
    assert demo.main(["--story", "drian"]) == 2
    first, *others = capsys.readouterr().err.splitlines()
    assert "there is no story 'drian'" in first
    assert [line.split()[0] for line in others] == list(STORIES)
