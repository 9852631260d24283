"""Generates two files of deploy/chart: the RBAC rules, and the JSON schema of `config` in the chart's values.

In: `app.rbac` and the settings' schema. Out: the files' texts. The chart's templates are written by hand; a test with the real
helm checks that they combine the rules as `app.rbac` does.
"""

import json
import re
from typing import Any, Final

import yaml

from slackwater.app import rbac
from slackwater.app.settings import schema

#: Keys that the chart's template writes itself, so the values must not contain them.
_HEADER: Final = frozenset({"apiVersion", "kind"})


def rights(_text: str = "") -> str:
    """The text of `files/rights.yaml`: all RBAC rules, grouped by the feature that needs them."""
    head = "# Generated from app/rbac.py by `make docs`. Templates take from it what the configuration needs.\n"
    return head + yaml.dump(rbac.parts(), Dumper=_WithoutAliases, sort_keys=False)


def values_schema(text: str) -> str:
    """The text of `values.schema.json`: the hand-written schema `text` with its `config` part and `$defs` replaced by the
    settings' schema."""
    whole: dict[str, Any] = json.loads(text)
    ours = schema()
    definitions = ours.pop("$defs")
    keys = {key: part for key, part in ours["properties"].items() if key not in _HEADER}
    whole["properties"]["config"] = {
        "description": "Slackwater's configuration, without apiVersion and kind.",
        "type": "object",
        "additionalProperties": False,
        "properties": keys,
    }
    whole["$defs"] = definitions
    return json.dumps(_for_go(whole), indent=2, ensure_ascii=False) + "\n"


def _for_go(part: Any) -> Any:
    """Replaces `\\u` escapes in patterns by the characters: helm uses Go's regular expressions, which do not know `\\u`."""
    if isinstance(part, list):
        return [_for_go(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    return {
        key: _plain(value) if key == "pattern" and isinstance(value, str) else _for_go(value) for key, value in part.items()
    }


def _plain(pattern: str) -> str:
    return re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), pattern)


class _WithoutAliases(yaml.SafeDumper):
    """A YAML dumper that repeats equal values instead of writing aliases, which are hard to read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
