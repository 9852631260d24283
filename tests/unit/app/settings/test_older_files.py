"""A file of an older version: `config check` names each key that has gone since, and what replaced it.

`older_keys.txt` has the keys of the version that `tests/cluster/test_upgrade.py` runs, from its `slackwater config schema`.
What the refusal of each key says is in `test_validation.py`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slackwater.app.settings import schema
from slackwater.app.settings.reading import REMOVED


def keys(node: Mapping[str, Any], definitions: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """All keys of a schema, without positions in lists."""
    if "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    for each in (*node.get("anyOf", ()), *node.get("allOf", ()), *([node["items"]] if "items" in node else [])):
        yield from keys(each, definitions, path)
    for name, each in node.get("properties", {}).items():
        at = f"{path}.{name}".strip(".")
        yield at
        yield from keys(each, definitions, at)


def test_each_key_of_an_older_file_is_known_or_named_with_what_replaced_it() -> None:
    older = set(Path(__file__).with_name("older_keys.txt").read_text().split())
    today = schema()
    gone = older - set(keys(today, today["$defs"]))
    assert len(gone) > 25
    assert {path for path in gone if not any(path == one or path.startswith(f"{one}.") for one in REMOVED)} == set()
    assert set(REMOVED) <= gone
