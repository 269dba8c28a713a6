"""The description of the API: the committed copy is the one that is served."""

import json
from pathlib import Path

from scheduler.observe.api import openapi
from tests.support.api_documents import Documents

COPY = Path(__file__).parents[3] / "docs" / "openapi.json"


def test_the_committed_copy_is_up_to_date():
    """If this fails: python -m deploy.tools.openapi."""
    assert COPY.read_bytes() == openapi.description()


def test_all_pages_are_described():
    described = json.loads(openapi.description())["paths"]
    served = set(Documents().api.pages()) - {openapi.PATH}

    # The other two are asked of the same server, and made elsewhere.
    assert set(described) - {"/api/v1/plan", "/api/v1/recording"} == served


def test_all_references_have_a_schema():
    text = openapi.description().decode()
    schemas = json.loads(text)["components"]["schemas"]
    prefix = '"$ref": "#/components/schemas/'

    names = {part.partition('"')[0] for part in text.split(prefix)[1:]}

    assert names <= set(schemas)
    assert len(names) > 20


async def test_the_description_is_served():
    assert (await Documents().get("openapi.json"))["openapi"] == "3.1.0"
