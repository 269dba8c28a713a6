"""What the page does when the API fails, refuses, or sends what an attacker wrote."""

import msgspec
import pytest

from scheduler.model.rest.common import OwnerView
from scheduler.model.rest.preemptions import PoliciesDocument
from tests.support.console_in_browser import Console

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

BARS = ".bars canvas[data-nodes='12']"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def test_data_stay_while_the_api_fails_and_are_live_again_when_it_is_back(page):
    page.open("cluster")
    page.find(BARS)

    page.console.stop_api()

    page.sees("No answer from the scheduler", "#problems")
    page.sees("What is shown is from", "#problems")
    page.sees("not up to date", "#connection")
    assert page.all(BARS)

    page.console.start_api()

    page.wait(lambda: not page.all(".banner"))
    page.sees("live", "#connection")
    revision = page.console.tick()
    page.find(f"{BARS}[data-revision='{revision}']")


def test_the_next_attempt_is_announced_and_can_be_made_at_once(page):
    page.open("policies")
    page.console.stand_in.switches.failures["/api/v1"] = 503
    page.console.stand_in.switches.break_watches = True
    page.console.tick()
    page.sees("Next attempt in", "#problems")
    page.console.stand_in.switches.failures.clear()
    page.console.stand_in.switches.break_watches = False

    page.click("Try now")

    page.wait(lambda: not page.all(".banner"))


def test_a_watch_that_is_too_old_is_listed_again(page):
    page.open("cluster")
    page.find(BARS)
    lists = [each for each in page.console.stand_in.requests if "/nodes?" in each]

    page.console.stand_in.switches.oldest_revision = 1_000_000
    page.console.stand_in.switches.break_watches = True
    page.console.tick()
    page.console.stand_in.switches.break_watches = False

    page.wait(
        lambda: (
            len([each for each in page.console.stand_in.requests if "/nodes?" in each])
            >= len(lists) + 2
        )
    )
    page.find(BARS)


def test_a_user_without_rights_is_told_the_missing_rule(page):
    page.console.stand_in.switches.failures["/api/v1"] = 403

    page.open("waiting/prod/api-0")

    page.sees("You may not read this", "#problems")
    page.sees('cannot get path "/preemptive-scheduler/api/v1/', "#problems")
    page.sees(
        'nonResourceURLs: ["/preemptive-scheduler/api/v1/pods/*",'
        '"/preemptive-scheduler/api/v1/summary"]',
        "#problems",
    )
    assert len(page.all(".banner")) == 1


def test_pods_that_the_user_may_not_get_are_counted_and_not_named(page):
    page.console.stand_in.switches.hide_names = True

    page.open("waiting")

    page.sees("14 pods wait")
    page.sees("You may not get pods in their namespaces")
    page.open("cluster?node=node-0001")
    page.sees("hidden pod", ".panel")
    assert "app-" not in page.text(".panel")


def test_a_replica_on_standby_says_so(page):
    page.console.stand_in.switches.leader = False

    page.open("cluster")

    page.sees("This replica is on standby", "#problems")


def test_a_user_whose_session_ended_is_told_to_sign_in(page):
    page.open("policies")
    page.driver.delete_all_cookies()
    page.console.stand_in.switches.break_watches = True
    page.console.tick()

    page.sees("Enter the key", "#problems")


def test_names_and_messages_never_become_elements(visit, console):
    console.call(lambda: poison(console))
    page = visit(console)

    for address, shown in {
        "cluster?by=none&node=node-0000": "main",
        "waiting?by=none": "main",
        "waiting?by=reason": "main",
        "preemptions": "main",
        "preemptions/preemption-00000": "main",
        "policies": "main",
        "shadow": "main",
    }.items():
        page.open(address)
        page.sees("onerror=", shown)
        assert page.script("return [...document.images].map((each) => each.className)") == [""]
        assert page.script("return document.scripts.length") == 1
        assert page.driver.title != "owned"


def poison(console: Console) -> None:
    """Write hostile text wherever a tenant, or an operator, can write."""
    world, replace = console.stand_in.world, msgspec.structs.replace
    console.stand_in.switches.shadow = True
    console.stand_in.shadow = replace(
        console.stand_in.shadow,
        schedulers=(HOSTILE,),
        items=tuple(
            replace(each, pod=replace(each.pod, name=HOSTILE), their_node=HOSTILE, why=HOSTILE)
            for each in console.stand_in.shadow.items
        ),
    )
    for key, each in world.pending.items():
        pod = replace(each.pod, name=HOSTILE, owner=OwnerView(HOSTILE, HOSTILE))
        world.pending[key] = replace(each, pod=pod, message=HOSTILE, scheduler_name=HOSTILE)
    for name in world.labels:
        world.labels[name] = {HOSTILE: HOSTILE}
    world.preemptions = [
        replace(
            each,
            preemptor=replace(each.preemptor, name=HOSTILE),
            node=HOSTILE,
            problem=HOSTILE,
            victims=tuple(replace(one, pod=replace(one.pod, name=HOSTILE)) for one in each.victims),
        )
        for each in world.preemptions
    ]
    (first, *rest) = world.policies.items
    world.policies = PoliciesDocument(
        1, (replace(first, name=HOSTILE, rules=(HOSTILE,), changes=(HOSTILE,)), *rest)
    )


def test_the_page_of_a_pod_with_a_hostile_name_shows_the_name(page):
    page.open(f"waiting/prod/{HOSTILE.replace('/', '%2F')}")

    page.sees("onerror=", "h1")
    assert page.driver.title != "owned"


def test_the_policy_of_the_page_forbids_inline_scripts(page):
    """The test above would see nothing if the policy was not in force, so it is tested, too."""
    page.script(
        "const script = document.createElement('script');"
        "script.textContent = \"document.title = 'owned'\"; document.body.append(script)"
    )

    assert page.driver.title != "owned"
    assert any("Content Security Policy" in each for each in page.problems())
