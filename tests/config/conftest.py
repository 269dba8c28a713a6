"""Fixtures that read configuration texts."""

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

from scheduler.config import load
from scheduler.config.field_errors import ConfigError
from scheduler.config.settings import ProfileSettings, Settings

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def parse() -> Callable[..., Settings]:
    """Return the settings of a document whose first two lines are given."""

    def parse(body: str = "", **options: Any) -> Settings:
        return load.parse(HEAD + dedent(body), source="f.yaml", **options)

    return parse


@pytest.fixture
def problems(parse: Callable[..., Settings]) -> Callable[..., list[str]]:
    """Return what is wrong with such a document, each problem as `path: message`."""

    def problems(body: str, **options: Any) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            parse(body, **options)
        return [str(each) for each in caught.value.problems]

    return problems


@pytest.fixture
def profile(parse: Callable[..., Settings]) -> Callable[..., ProfileSettings]:
    """Return the only profile of a document, given its fields in flow style."""

    def profile(fields: str = "{}", **options: Any) -> ProfileSettings:
        [only] = parse(f"profiles:\n- {fields}\n", **options).profiles
        return only

    return profile
