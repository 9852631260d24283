"""mkdocs hook: each description of a listener in `openapi/` is a page of the site, which the site's search finds.

In: `openapi/NAME.yaml`, OpenAPI 3.1 as `make openapi` writes it. Out: the page `api/NAME.md`, never on disk, with a section for
each path and each schema. What it does not know of OpenAPI fails the build, so that nothing is left out in silence.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

Json = Mapping[str, Any]
_DOCUMENTS = Path(__file__).parents[1] / "openapi"
_BOUNDS = {"minimum": "≥", "maximum": "≤", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
#: What is shown of a schema, and what need not be: a `title` repeats the name, a `default` and `examples` the description.
_KNOWN = {"$ref", "additionalProperties", "anyOf", "const", "description", "enum", "items", "pattern", "properties", "required"}
_KNOWN |= {"type", *_BOUNDS} | {"title", "default", "examples"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    for path in sorted(_DOCUMENTS.glob("*.yaml")):
        text = page(yaml.safe_load(path.read_text("utf-8")))
        files.append(File.generated(config, f"api/{path.stem}.md", content=text))
    return files


def page(document: Json) -> str:
    """The page in Markdown. Raises `PluginError` for what it does not know."""
    return "\n\n".join(_parts(document)) + "\n"


def _parts(document: Json) -> Iterator[str]:
    info, components = document["info"], document.get("components", {})
    yield f"# {info['title']}"
    yield str(info["description"])
    yield "\n".join(f"- `{each['url']}`: {each['description']}" for each in document["servers"])
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield from _operation(f"{method.upper()} {path}", operation, components)
    yield "## Schemas"
    for name, schema in components.get("schemas", {}).items():
        yield f"### {name}"
        yield from _schema(name, schema)


def _operation(title: str, operation: Json, components: Json) -> Iterator[str]:
    yield f"## {title}"
    yield str(operation["summary"])
    if "description" in operation:
        yield str(operation["description"])
    if parameters := operation.get("parameters", ()):
        asked = [(f"`{each['name']}`", each["in"], _type(each["schema"]), each.get("description", "")) for each in parameters]
        yield _table(("parameter", "in", "type", "what"), asked)
    if "requestBody" in operation:
        contents = _contents(operation["requestBody"])
        yield "Body: " + ", ".join(_media(media, content) for media, content in contents)
        yield from _examples(contents)
    answers = {code: _resolved(answer, components) for code, answer in operation["responses"].items()}
    rows = [
        (f"`{code}`", ", ".join(_media(*each) for each in _contents(answer)), answer["description"])
        for code, answer in answers.items()
    ]
    yield _table(("status", "answer", "what"), rows)
    for code, answer in answers.items():
        yield from _examples(_contents(answer), f"{code}: ")


def _resolved(part: Json, components: Json) -> Json:
    if "$ref" not in part:
        return part
    kind, name = part["$ref"].removeprefix("#/components/").split("/")
    found: Json = components[kind][name]
    return found


def _contents(part: Json) -> list[tuple[str, Json]]:
    return list(part.get("content", {}).items())


def _media(media: str, content: Json) -> str:
    schema = content.get("schema", {})
    return f"{media}: {_type(schema)}" if schema else media


def _examples(contents: Sequence[tuple[str, Json]], of: str = "") -> Iterator[str]:
    for _, content in contents:
        for name, example in content.get("examples", {}).items():
            value = example["value"]
            text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
            language = "text" if isinstance(value, str) else "json"
            title = f"Example, {of}{example.get('summary', name)}"
            yield f'<details markdown="1">\n<summary>{title}</summary>\n\n```{language}\n{text}\n```\n\n</details>'


def _schema(name: str, schema: Json) -> Iterator[str]:
    if odd := sorted(schema.keys() - _KNOWN):
        raise PluginError(f"openapi: schema {name}: {odd[0]} is not known to docs/openapi_pages.py")
    if "description" in schema:
        yield str(schema["description"])
    required = schema.get("required", ())
    if fields := schema.get("properties"):
        shown = [
            (f"`{field}`", _type(part), "always" if field in required else "", part.get("description", ""))
            for field, part in fields.items()
        ]
        yield _table(("field", "type", "there", "what"), shown)
    else:
        yield f"Type: {_type(schema)}"


def _type(schema: Json) -> str:
    """The type of a value in a few words, with a link to the schema that it names."""
    if odd := sorted(schema.keys() - _KNOWN):
        raise PluginError(f"openapi: {odd[0]} is not known to docs/openapi_pages.py")
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if alternatives := schema.get("anyOf"):
        return " or ".join(_type(each) for each in alternatives)
    if values := [schema["const"]] if "const" in schema else schema.get("enum"):
        return " or ".join(f"`{json.dumps(each)}`" for each in values)
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"map of {_type(schema['additionalProperties'])}"
    bounds = [f"{sign} {schema[key]}" for key, sign in _BOUNDS.items() if key in schema]
    pattern = [f"`{schema['pattern']}`"] if "pattern" in schema else []
    return ", ".join([str(kind), *bounds, *pattern])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in line) + " |" for line in lines)
