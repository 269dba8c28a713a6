"""`python -m deploy.tools.console.type_check`: check the types of the console's page.

The page is JavaScript with types in comments (JSDoc), which TypeScript checks and nothing compiles.
The types of what the API answers come from `docs/openapi.json`: a field that the page uses and the
API does not have is an error, as is one that may be missing and is used as if it was always there.

The check works on a copy of the page, because the copied libraries are replaced by the types of
their packages, and those of the API are written next to them.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from deploy.tools.console.__main__ import HERE, LOCK, ROOT, VENDOR, install

__all__ = ["declarations", "main", "type_of"]

PLACE: Final = ROOT / "build" / "console-check"
PAGE: Final = VENDOR.parent
API: Final = ROOT / "docs" / "openapi.json"
#: What the copies of libraries export: that of their packages.
LIBRARY_TYPES: Final = {
    "preact.d.ts": 'export * from "preact";\n',
    "preact-hooks.d.ts": 'export * from "preact/hooks";\n',
    "htm.d.ts": 'export { default } from "htm";\n',
    "uplot.d.ts": 'export { default } from "uplot";\n',
    "js-yaml.d.ts": 'export * from "js-yaml";\n',
}
BASE: Final = "/api/v1"
_PLAIN: Final = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the TypeScript type of a schema of OpenAPI.

    Raises:
        ValueError: It uses a keyword that this does not know.
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema or "enum" in schema:
        choices = [type_of(each) for each in schema.get("anyOf", ())]
        return " | ".join(choices or map(json.dumps, schema["enum"]))
    if schema.get("type") == "array":
        return f"Array<{type_of(schema['items'])}>"
    if schema.get("type") == "object":
        return _object(schema)
    if schema and schema.get("type") not in _PLAIN:
        raise ValueError(f"a schema of another form: {json.dumps(schema)}")
    return _PLAIN[schema["type"]] if schema else "unknown"


def _object(schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return f"Record<string, {type_of(schema.get('additionalProperties') or {})}>"
    required = schema.get("required", ())
    fields = (
        f"{json.dumps(name)}{'' if name in required else '?'}: {type_of(each)};"
        for name, each in schema["properties"].items()
    )
    return f"{{ {' '.join(fields)} }}"


def declarations(document: Mapping[str, Any]) -> str:
    """Return the namespace `Api`: a type for each schema, and what each path takes and answers.

    Paths are those below `/api/v1`, in the interfaces `Get` and `Post`.
    """
    schemas = document["components"]["schemas"].items()
    lines = [f"  type {name} = {type_of(schema)};" for name, schema in schemas]
    for method in ("get", "post"):
        operations = (
            f"    {json.dumps(path.removeprefix(BASE))}: {_operation(each[method])};"
            for path, each in document["paths"].items()
            if method in each
        )
        lines += [f"  interface {method.title()} {{", *operations, "  }"]
    return "\n".join(["declare namespace Api {", *lines, "}", ""])


def _operation(operation: Mapping[str, Any]) -> str:
    """Return the type of a path: names in it, query parameters, body and answer."""
    parameters = operation.get("parameters", ())
    names = [f"{each['name']}: string" for each in parameters if each["in"] == "path"]
    query = [
        f"{json.dumps(each['name'])}?: string | number;"
        for each in parameters
        if each["in"] == "query"
    ]
    body = _json_of(operation.get("requestBody", {}))
    answer = _json_of(operation["responses"]["200"])
    return (
        f"{{ names: [{', '.join(names)}]; query: {{ {' '.join(query)} }};"
        f" body: {body}; answer: {answer} }}"
    )


def _json_of(message: Mapping[str, Any]) -> str:
    content = message.get("content", {}).get("application/json")
    return "unknown" if content is None else type_of(content["schema"])


def _installed() -> Path:
    """Return the folder that has the packages of the lock file; they are installed once."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    stamp = PLACE / "installed"
    if not stamp.is_file() or stamp.read_text() != digest:
        stamp.unlink(missing_ok=True)
        PLACE.mkdir(parents=True, exist_ok=True)
        install(PLACE, "--include=dev")
        stamp.write_text(digest)
    return PLACE


def main() -> int:
    """Check the page; return the exit code of TypeScript."""
    if shutil.which("npm") is None:
        print("error: npm is not on PATH; the check needs Node.js 20 or newer", file=sys.stderr)
        return 1
    place = _installed()
    page = place / "page"
    shutil.rmtree(page, ignore_errors=True)
    shutil.copytree(PAGE / "js", page / "js")
    (page / "vendor").mkdir()
    for name, text in LIBRARY_TYPES.items():
        (page / "vendor" / name).write_text(text)
    shutil.copy(HERE / "page.d.ts", page)
    (page / "api.d.ts").write_text(declarations(json.loads(API.read_text())))
    shutil.copy(HERE / "tsconfig.json", place)
    checked = subprocess.run(
        ["node_modules/.bin/tsc", "--project", ".", "--pretty", "false"],
        cwd=place,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in checked.stdout.splitlines():
        in_page = line.startswith("page/")
        print(f"{PAGE.relative_to(ROOT)}/{line.removeprefix('page/')}" if in_page else line)
    return checked.returncode


if __name__ == "__main__":
    sys.exit(main())
