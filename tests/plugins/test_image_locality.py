"""ImageLocality: prefers nodes that have the pod's images."""

import pytest
from msgspec.structs import replace

from scheduler.model.api.objects import ImageVolume, Volume
from scheduler.plugins.image_locality import ImageLocality
from tests.support.builders import container, node, pod
from tests.support.plugin_checks import scored, state_of

PLUGIN = ImageLocality()
MIB = 1024 * 1024


def with_image(name: str, image: str, mib: int):
    return node(name).image(image, mib * MIB)


def test_a_node_without_the_image_gets_no_points():
    state = state_of(with_image("n1", "other:1", 500), node("n2"))

    assert scored(PLUGIN, pod("p").image("app:1"), state) == {"n1": 0, "n2": 0}


def test_an_image_that_all_nodes_have_scores_by_its_size():
    state = state_of(with_image("n1", "app:1", 500))

    # (500 - 23) / (1000 - 23)
    assert scored(PLUGIN, pod("p").image("app:1"), state) == {"n1": 48}


def test_an_image_that_half_of_the_nodes_have_counts_half():
    state = state_of(with_image("n1", "app:1", 1000), node("n2"))

    assert scored(PLUGIN, pod("p").image("app:1"), state) == {"n1": 48, "n2": 0}


@pytest.mark.parametrize(
    ("mib", "want"), [(22, 0), (23, 0), (24, 0), (33, 1), (1000, 100), (9000, 100)]
)
def test_images_score_between_two_sizes(mib, want):
    assert scored(PLUGIN, pod("p").image("app:1"), state_of(with_image("n1", "app:1", mib))) == {
        "n1": want
    }


NAMES = [
    ("app", "app:latest"),
    ("registry.example.com:5000/app", "registry.example.com:5000/app:latest"),
    ("registry.example.com:5000/app:v1", "registry.example.com:5000/app:v1"),
    ("app@sha256:abc", "app@sha256:abc"),
]


@pytest.mark.parametrize(("asked", "has"), NAMES, ids=[asked for asked, _ in NAMES])
def test_an_image_without_a_tag_is_the_latest(asked, has):
    state = state_of(with_image("n1", has, 500))

    assert scored(PLUGIN, pod("p").image(asked), state) == {"n1": 48}


def test_the_images_of_all_containers_count_and_so_does_their_number():
    state = state_of(with_image("n1", "app:1", 500).image("setup:1", 523 * MIB))
    wanted = pod("p").image("app:1").init(replace(container(), image="setup:1"))

    # (1023 - 23) / (2000 - 23)
    assert scored(PLUGIN, wanted, state) == {"n1": 50}


def test_an_image_that_is_mounted_counts_without_a_container():
    state = state_of(with_image("n1", "model:1", 500))
    wanted = pod("p").image("app:1").spec(volumes=[Volume("v", image=ImageVolume("model:1"))])

    assert scored(PLUGIN, wanted, state) == {"n1": 48}


def test_scores_are_recomputed_when_another_node_gets_or_loses_the_image():
    state = state_of(with_image("n1", "app:1", 1000), node("n2"))
    compiled_score = PLUGIN.compile_score(pod("p").image("app:1").build(), state)
    assert compiled_score is not None
    first = compiled_score.cache_key()

    state.write_node(with_image("n2", "app:1", 1000).build())
    second = compiled_score.cache_key()
    state.write_node(node("n3").build())

    assert len({first, second, compiled_score.cache_key()}) == 3


def test_images_that_the_pod_does_not_use_do_not_matter():
    state = state_of(node("n1"))
    compiled_score = PLUGIN.compile_score(pod("p").image("app:1").build(), state)
    assert compiled_score is not None
    first = compiled_score.cache_key()

    state.write_node(with_image("n2", "other:1", 100).build())

    assert compiled_score.cache_key() == first
