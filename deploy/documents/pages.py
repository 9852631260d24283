"""Regenerates the generated parts of the documentation and of deploy: `python -m deploy.documents.pages docs deploy ...`.

In: metrics, configuration keys, reasons and RBAC rules from the code. Out: Markdown tables, manifests, and two files of
deploy/chart (`rights`, `values_schema`). A generated part is between two marks, `generated: NAME` and `end`, each a comment on
a line of its own; the text around it is written by hand and stays. The chart's templates are written by hand; a test with the
real helm checks that they combine the rules as `app.rbac` does.
"""

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import yaml
from prometheus_client.core import Metric

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.http.state_metrics import node_families
from slackwater.app import rbac, wiring
from slackwater.app.converters.draft import default_text
from slackwater.app.converters.flags import FLAGS
from slackwater.app.settings import Settings, schema
from slackwater.app.settings.autoscaling import Autoscaler
from slackwater.app.settings.reload import Needs, needs
from slackwater.app.settings.serving import Report
from slackwater.configuration.problems import Steps
from slackwater.controllers.notifications.alerts import ALERTS, Alert
from slackwater.controllers.notifications.settings import Notifications, Webhook
from slackwater.model.reasons import Reason, UnremovableReason, WaitReason
from slackwater_protocol import names

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


Json = Mapping[str, Any]

_WHEN: Final[dict[Needs, str]] = {
    "live": "at once",
    "restart": "restart",
    "scheduler": "restart; kube-scheduler's file too",
}


class MarksMissing(Exception):
    """The marks of a generated part are not in the file exactly once."""


def renewed(name: str, text: str) -> str:
    """Regenerates the generated parts of `text`, the content of the file called `name`; returns the new content.

    :raises MarksMissing: a part's marks are not there once. :raises KeyError: nothing is generated into a file of that name.
    """
    if whole := _WHOLE.get(name):
        return whole(text)
    for part, made in _PARTS[name].items():
        text = _with_part(name, text, part, made(text))
    return text


def _with_part(name: str, text: str, part: str, made: str) -> str:
    marks = re.compile(rf"(^(?:<!-- |# )generated: {part}(?: -->)?\n).*?(^(?:<!-- |# )end(?: -->)?$)", re.DOTALL | re.MULTILINE)
    found, count = marks.subn(lambda marked: f"{marked[1]}{made}{marked[2]}", text)
    if count != 1:
        raise MarksMissing(f"{name}: the marks `generated: {part}` and `end` are there {count} times, want once")
    return found


def _table(*rows: Sequence[str]) -> str:
    """A Markdown table; the first row is its head."""
    head, *others = ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)
    return "".join([head, "|" + "---|" * len(rows[0]) + "\n", *others])


# --- metrics --------------------------------------------------------------------------------------------------------------


def metrics(_text: str = "") -> str:
    """A table of the service's metrics, sorted by name: type, labels and meaning."""
    ours = ("slackwater_", "cluster_autoscaler_")
    families = sorted((family for family in _families() if family.name.startswith(ours)), key=lambda f: f.name)
    rows = [(f"`{_exposed(f)}`", f.type, ", ".join(f"`{label}`" for label in _labels(f)), f.documentation) for f in families]
    return _table(("metric", "type", "labels", "meaning"), *rows)


def _families() -> list[Metric]:
    # Wire the service as `serve` does, so that all metrics are registered. It is not started, so it needs no client.
    receiver = Notifications(webhook=Webhook(url_file="/url", allowed_hosts=("localhost",)))
    everything = Settings(autoscaler=Autoscaler(enabled=True), report=Report(enabled=True), notifications=receiver)
    service = wiring.Service(everything, cast("ApiPort", None), Random(0))
    return [*service.registry.collect(), *node_families()]


def _exposed(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _labels(family: Metric) -> list[str]:
    """The label names of a metric family. If the family has no series yet, only a private field of the library has them."""
    names = family.samples[0].labels if family.samples else getattr(family, "_labelnames", ())
    return [name for name in names if name != "le"]


# --- reasons --------------------------------------------------------------------------------------------------------------


def reasons(_text: str = "") -> str:
    """A table of all reasons: number, label, the plug-in that the reason is attributed to, text, and whether evictions may
    help."""
    rows = [
        (str(int(reason)), f"`{reason.label}`", reason.plugin, reason.text, "yes" if reason.resolvable else "no")
        for reason in Reason
    ]
    return _table(("number", "label", "whose word", "text", "may evicting pods help?"), *rows)


def unremovable_reasons(_text: str = "") -> str:
    """A table of the reasons why a node cannot be removed."""
    return _table(("reason", "meaning"), *((f"`{each}`", each.text) for each in UnremovableReason))


def wait_reasons(_text: str = "") -> str:
    """A table of the wait reasons, which only explanations use."""
    return _table(("code", "text"), *((f"`{each}`", each.text) for each in WaitReason))


# --- alerts ---------------------------------------------------------------------------------------------------------------


def alert_rules(_text: str = "") -> str:
    """The text of `alerts.yaml`: the rules for Prometheus."""
    head = """\
# Generated from controllers/notifications/alerts.py by `make docs`: the alerts of docs/runbooks.md. As a file of `rule_files`,
# or as the `spec` of a PrometheusRule. They match whatever job scrapes the ops listener.
# `runbook_url` is a path in this repository; put the address of your copy of the site before it.
"""
    groups = [
        {"name": name, "rules": [_rule(alert) for alert in alerts]} for name, alerts in groupby(ALERTS, lambda each: each.group)
    ]
    return head + yaml.dump({"groups": groups}, Dumper=_WithoutAliases, sort_keys=False, width=1000)


def _rule(alert: Alert) -> Json:
    held = {"for": f"{alert.minutes}m"} if alert.minutes else {}
    notes = {"summary": alert.summary, "description": alert.description}
    return {
        "alert": alert.name,
        "expr": alert.expression,
        **held,
        "labels": {"severity": alert.severity},
        "annotations": {**notes, "runbook_url": f"docs/runbooks.md#{alert.name.lower()}"},
    }


# --- configuration --------------------------------------------------------------------------------------------------------


def settings(_text: str = "") -> str:
    """Tables of all keys of the configuration file, one for each section, in the file's order."""
    whole = schema()
    return "\n".join(_section((), {**whole, "description": "The keys that are in no section."}, whole["$defs"]))


def _section(at: Steps, section: Json, definitions: Json) -> Iterator[str]:
    keys = {(*at, key): part for key, part in section["properties"].items()}
    path = ".".join(map(str, at))
    yield f"### {f'`{path}`' if at else 'Top'}\n"
    yield section["description"] + "\n"
    needed = section.get("required", ())
    rows = [_row(steps, part, needed=steps[-1] in needed) for steps, part in keys.items() if "$ref" not in part]
    if rows:
        yield _table(("key", "default", "values", "a change takes effect", "meaning"), *rows)
    for steps, part in keys.items():
        if target := _target(part):
            entry = f"{steps[-1]}[]" if part.get("type") == "array" else steps[-1]
            yield from _section((*at, entry), definitions[target], definitions)


def _target(part: Json) -> str | None:
    """The name of the section that a key holds, directly or as entries of a list; None if the key holds no section."""
    options = (part, part.get("items", {}), *part.get("anyOf", ()))
    found = next((option["$ref"] for option in options if "$ref" in option), None)
    return None if found is None else str(found).rpartition("/")[2]


def _row(steps: Steps, part: Json, *, needed: bool) -> Sequence[str]:
    default = "needed" if needed else _default(part["default"])
    return f"`{steps[-1]}`", default, _values(part), _WHEN[needs(_keys(steps))], str(part["description"])


def _default(value: object) -> str:
    return "not set" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _values(part: Json) -> str:
    if "const" in part:
        return f"`{part['const']}`"
    if words := part.get("enum") or part.get("items", {}).get("enum"):
        return ", ".join(f"`{word}`" for word in words)
    if part.get("type") == "boolean":
        return "`true`, `false`"
    bounds = (("> ", "exclusiveMinimum"), (">= ", "minimum"), ("<= ", "maximum"))
    return ", ".join(f"{sign}{part[key]}" for sign, key in bounds if key in part)


def _keys(steps: Steps) -> Steps:
    """The path without the `[]` that marks lists."""
    return tuple(str(step).removesuffix("[]") for step in steps)


# --- names ----------------------------------------------------------------------------------------------------------------


def well_known_names(_text: str = "") -> str:
    """Tables of the names in `slackwater_protocol.names`, each with its `#:` comment, one table for each section."""
    rows: list[str] = []
    for line in inspect.getsource(names).splitlines():
        if line.startswith("# "):
            rows.append(f"\n### {line[2:].rstrip('.')}\n\n| name | what |\n|---|---|\n")
        elif line.startswith("#: "):
            meaning = line[3:]
        elif found := re.match(r'[A-Z_]+: Final = "(.+)"', line):
            rows.append(f"| `{found[1]}` | {meaning} |\n")
    return "".join(rows) + "\n"


def flags(_text: str = "") -> str:
    """A table of Cluster Autoscaler's flags: the setting in place of each, or why there is none. Neighbours with the same
    answer share a row."""
    rows = []
    for (key, why), same in groupby(FLAGS, lambda flag: (flag.key, flag.why)):
        group = list(same)
        notes = [why] if why else []
        ours = default_text(key)
        if key and ours and (theirs := group[0].default) not in ("", ours) and group[0].kind in ("bool", "int"):
            notes.append(f"{theirs} by default there, {ours} here")
        names = ", ".join(f"`--{flag.name}`" for flag in group)
        rows.append((names, f"`{key}`" if key else "none", "; ".join(notes)))
    return _table(("Cluster Autoscaler", "Slackwater", ""), *rows)


_PARTS: Final[dict[str, dict[str, Callable[[str], str]]]] = {
    "names.md": {"names": well_known_names},
    "operations.md": {"metrics": metrics},
    "reasons.md": {"reasons": reasons},
    "evacuation.md": {"unremovable reasons": unremovable_reasons},
    "explain.md": {"wait reasons": wait_reasons},
    "configuration.md": {"settings": settings},
    "guides/from-cluster-autoscaler.md": {"flags": flags},
}
#: Files without marks: the function gets the old text and returns the whole new one.
_WHOLE: Final[dict[str, Callable[[str], str]]] = {
    "alerts.yaml": alert_rules,
    "rbac.yaml": lambda _: rbac.manifest(),
    "rights.yaml": rights,
    "values.schema.json": values_schema,
}
#: The names of all files with generated content.
FILES: Final = (*_PARTS, *_WHOLE)


def main(argv: Sequence[str] | None = None) -> int:
    """Regenerates those of the files that exist in the given directories. The exit status is 0; 1 if no file was found or marks
    are missing."""
    parser = argparse.ArgumentParser(prog="python -m deploy.documents.pages", description="Renews generated documentation.")
    parser.add_argument("directories", metavar="DIR", nargs="+", type=Path)
    directories: list[Path] = parser.parse_args(argv).directories
    found = {path: name for directory in directories for name in FILES if (path := directory / name).exists()}
    try:
        texts = {path: renewed(name, path.read_text(encoding="utf-8")) for path, name in found.items()}
    except MarksMissing as error:
        print(error, file=sys.stderr)
        return 1
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
        print(path)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
