"""The container images on nodes."""

from scheduler.state.columns.images import Images
from tests.support.builders import node

MIB = 1024 * 1024


def written(images: Images, row: int, *names: str, size: int = MIB) -> None:
    builder = node(f"n{row}")
    for name in names:
        builder = builder.image(name, size)
    images.write(row, builder.build())


def rows(images: Images, name: str) -> set[int] | None:
    state = images.get(name)
    return None if state is None else state.rows


def test_an_image_is_known_by_the_rows_that_have_it():
    images = Images()
    written(images, 0, "app:1", "db:1")
    written(images, 3, "app:1")

    assert rows(images, "app:1") == {0, 3}
    assert rows(images, "db:1") == {0}
    assert rows(images, "web:1") is None


def test_the_first_node_determines_the_size():
    images = Images()
    written(images, 0, "app:1", size=7)
    written(images, 1, "app:1", size=9)

    state = images.get("app:1")
    assert state is not None
    assert state.size == 7


def test_images_that_a_node_no_longer_has_are_dropped():
    images = Images()
    written(images, 0, "app:1", "db:1")
    written(images, 1, "app:1")

    written(images, 0, "db:1")

    assert rows(images, "app:1") == {1}


def test_a_deleted_node_has_no_images():
    images = Images()
    written(images, 0, "app:1")

    images.write(0, None)

    assert rows(images, "app:1") is None


def test_the_version_grows_with_every_change_and_with_no_repeat():
    images = Images()
    written(images, 0, "app:1")
    version = images.version

    written(images, 0, "app:1")
    assert images.version == version

    written(images, 0, "app:2")
    assert images.version > version
