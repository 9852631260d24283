"""What of deploy/chart is generated from the code: the rules of its roles, and the schema of the configuration in its values.

Flows through: `app.rbac` and the settings' schema -> text of the chart's files. Deliberately absent: the templates, which
people write; that they put the rules together as `app.rbac` does is tested with the real helm.
"""

import json
import re
from typing import Any, Final

import yaml

from slackwater.app import rbac
from slackwater.app.settings import schema

#: What the chart writes at the head of the file, so that values have no place for it.
_HEADER: Final = frozenset({"apiVersion", "kind"})


def rights(_text: str = "") -> str:
    """`files/rights.yaml`: every rule, by what it is needed for."""
    head = "# Generated from app/rbac.py by `make docs`. Templates take from it what the configuration needs.\n"
    return head + yaml.dump(rbac.parts(), Dumper=_WithoutAliases, sort_keys=False)


def values_schema(text: str) -> str:
    """`values.schema.json`: what people wrote, with the schema of `config` and of its sections as the code has them."""
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
    """Patterns with the characters themselves: helm's regular expressions know no `\\u`."""
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
    """helm reads aliases, people do not like to."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
