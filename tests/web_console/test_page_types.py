"""The types of the page come from the description of the API. `make console-check` uses them."""

import json

import pytest

from deploy.tools.console.__main__ import LIBRARIES
from deploy.tools.console.type_check import API, LIBRARY_TYPES, declarations, type_of

DOCUMENT = json.loads(API.read_text())


@pytest.mark.parametrize(
    ("schema", "want"),
    [
        ({"type": "integer"}, "number"),
        ({"enum": ["a", "b"]}, '"a" | "b"'),
        ({"anyOf": [{"$ref": "#/components/schemas/Pod"}, {"type": "null"}]}, "Pod | null"),
        ({"type": "array", "items": {"type": "string"}}, "Array<string>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "Record<string, number>"),
        ({"type": "object"}, "Record<string, unknown>"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "boolean"}, "b": {"type": "string"}},
                "required": ["a"],
            },
            '{ "a": boolean; "b"?: string; }',
        ),
    ],
)
def test_a_schema_is_a_type(schema, want):
    assert type_of(schema) == want


def test_a_schema_that_is_not_understood_is_an_error():
    with pytest.raises(ValueError, match="another form"):
        type_of({"oneOf": []})


def test_each_schema_and_path_of_the_api_has_a_type():
    text = declarations(DOCUMENT)

    for name in DOCUMENT["components"]["schemas"]:
        assert f"  type {name} = " in text
    assert (
        '    "/pods/{namespace}/{name}": { names: [namespace: string, name: string];'
        ' query: { "uid"?: string | number; "nodes"?: string | number; };'
        " body: unknown; answer: PodExplanation };"
    ) in text
    bodies = "WhatIfRequest | KubernetesObject | Array<KubernetesObject>"
    assert f"body: {bodies}; answer: WhatIfAnswer }};" in text


def test_each_copied_module_has_the_types_of_its_package():
    modules = {
        name.removesuffix(".js") + ".d.ts"
        for library in LIBRARIES
        for name in library.files.values()
        if name.endswith(".js")
    }

    assert set(LIBRARY_TYPES) == modules
