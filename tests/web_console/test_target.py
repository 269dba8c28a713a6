"""Which cluster the page says that it shows."""

import argparse
import io

import pytest

from scheduler.kubectl.client import SchedulerClient
from scheduler.kubectl.commands.console import target
from scheduler.kubectl.connection import Reach
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session
from scheduler.web_console.target import COLOURS, Target

PAGE = b'<head><meta name="target" content=""></head>'


def test_a_name_has_the_same_colour_each_time_and_names_have_several():
    shown = [Target(f"cluster-{i}").shown_colour for i in range(40)]

    assert shown == [Target(f"cluster-{i}", user="other").shown_colour for i in range(40)]
    assert set(shown) == set(COLOURS)
    assert Target("cluster-0", colour="pink").shown_colour == "pink"


@pytest.mark.parametrize("name", ["prod", 'a"><script>alert(1)</script>', "\u00e9\u4e16"])
def test_a_name_is_text_in_both_pages(name: str):
    target = Target(name, "prod-eu", "jane", "red")

    page, heading = target.within(PAGE).decode(), target.heading()

    assert page.count("<") == PAGE.count(b"<")
    assert page.count('"') == PAGE.count(b'"')
    assert heading.count("<") == 2
    assert 'class="target target-red"' in heading


def test_a_page_without_a_target_says_none():
    assert Target().heading() == ""


@pytest.mark.parametrize(
    ("server", "want"),
    [
        pytest.param("", Target("staging", "eu", "jane"), id="the context of the kubeconfig"),
        pytest.param("https://a:1", Target("https://a:1"), id="the address that was given"),
    ],
)
def test_it_is_what_the_command_was_told(server: str, want: Target, tmp_path):
    file = tmp_path / "config"
    file.write_text(
        "current-context: staging\n"
        "contexts: [{name: staging, context: {cluster: eu, user: jane}}]\n"
        "clusters: [{name: eu, cluster: {server: 'https://eu.example'}}]\n"
        "users: [{name: jane, user: {token: secret}}]\n"
    )
    reach = Reach((file,), float, server=server)
    arguments = argparse.Namespace(server=server, color="")
    out = Output(io.StringIO(), None, color=False)

    assert (
        target(Session(arguments, SchedulerClient(reach.open), out, float, reach.selection)) == want
    )
