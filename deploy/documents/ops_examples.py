"""Recorded exchanges as examples of the ops listener's OpenAPI document.

`add_examples` reads `examples/ops-NAME.request.json` and `examples/ops-NAME.200.json`, which `make openapi RECORD=1` records on
a real control plane (`tests/cluster/test_ops_examples.py`).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class OpsExample:
    """One recorded exchange. `path` is a path of the OpenAPI document. `lines`: the answer is JSON lines."""

    name: str
    method: str
    path: str
    summary: str
    lines: bool = False

    @property
    def file(self) -> str:
        return f"ops-{self.name}.200.{'ndjson' if self.lines else 'json'}"

    @property
    def request_file(self) -> str | None:
        return f"ops-{self.name}.request.json" if self.method == "post" else None


EXAMPLES: Final = (
    OpsExample(
        name="dumpstate", method="get", path="/dumpstate", summary="Two nodes, a pod on each, and one that fits on none"
    ),
    OpsExample(
        name="explain-pod",
        method="get",
        path="/explain/pods/{namespace}/{name}",
        summary="A pod that asks for more than is left",
    ),
    OpsExample(
        name="explain-node", method="get", path="/explain/nodes/{name}", summary="A node that no autoscaler looks after"
    ),
    OpsExample(
        name="history-pod",
        method="get",
        path="/history/pods/{namespace}/{name}",
        summary="A pod that was refused for want of CPU",
    ),
    OpsExample(
        name="placement",
        method="post",
        path="/simulate/placement",
        summary="Where would the waiting pod go if another node were there?",
        lines=True,
    ),
    OpsExample(name="scale-up", method="post", path="/simulate/scale-up", summary="Nodes that a group would add"),
    OpsExample(name="scale-down", method="post", path="/simulate/scale-down", summary="Which nodes could go"),
    OpsExample(
        name="consolidate", method="post", path="/simulate/consolidate", summary="One of two half-empty nodes would be replaced"
    ),
)


def add_examples(document: dict[str, Any], folder: Path) -> None:
    """Adds the recorded bodies in `folder` to the OpenAPI document `document`. Raises OSError if one cannot be read."""
    for example in EXAMPLES:
        operation = document["paths"][example.path][example.method]
        text = (folder / example.file).read_text(encoding="utf-8")
        answer: Any = text if example.lines else json.loads(text)
        _add(operation["responses"]["200"], example, answer)
        if example.request_file is not None:
            _add(operation["requestBody"], example, json.loads((folder / example.request_file).read_text(encoding="utf-8")))


def _add(part: dict[str, Any], example: OpsExample, body: Any) -> None:
    for content in part["content"].values():
        content["examples"] = {example.name: {"summary": example.summary, "value": body}}
