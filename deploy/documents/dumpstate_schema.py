"""The JSON schema of `GET /dumpstate`, and recorded exchanges as examples of the ops listener's OpenAPI document.

- The schema describes the dump of the state machine, with the autoscaler's last loop and the configuration. Keys may be added
  without a new version. Objects of the API server have no detailed schema: they follow the values of `slackwater.model` and are
  there only so that a dump can be loaded again.
- `add_examples` reads `examples/ops-NAME.request.json` and `examples/ops-NAME.200.json`, which `make openapi RECORD=1` records
  on a real control plane (`tests/cluster/test_ops_examples.py`).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from slackwater.cluster.holds import Cause

Json = dict[str, Any]


def _object(**properties: Json) -> Json:
    return {"type": "object", "required": sorted(properties), "properties": properties}


def _list(description: str, items: Json | None = None) -> Json:
    return {"type": "array", "description": description, "items": items if items is not None else {}}


def _or_null(part: Json) -> Json:
    return {"anyOf": [part, {"type": "null"}]}


def _described(part: Json, description: str) -> Json:
    return {**part, "description": description}


_TEXT: Final[Json] = {"type": "string"}
_TEXT_OR_NULL: Final[Json] = {"type": ["string", "null"]}
_WHOLE: Final[Json] = {"type": "integer"}
_WHOLE_OR_NULL: Final[Json] = {"type": ["integer", "null"]}
_YES_NO: Final[Json] = {"type": "boolean"}
_SECONDS: Final[Json] = {"type": "number"}
_SECONDS_OR_NULL: Final[Json] = {"type": ["number", "null"]}
_VALUE: Final[Json] = {"type": "object"}
_NAME: Final = {"namespace": _TEXT, "name": _TEXT}
_POD: Final = {**_NAME, "uid": _TEXT}
_AMOUNTS: Final = _object(cpu=_WHOLE, memory=_WHOLE)
_AMOUNTS_OR_NULL: Final = _or_null(_AMOUNTS)
_NODE_NUMBERS: Final = _object(
    total=_WHOLE,
    watermark=_WHOLE,
    reserved=_WHOLE,
    buffer=_WHOLE,
    capacityPressure=_WHOLE,
    pressureAccountedFor=_WHOLE,
    held=_WHOLE,
)
_POD_NUMBERS: Final = _object(
    reserved=_WHOLE,
    buffer=_WHOLE,
    capacityPressure=_WHOLE,
    accountedFor=_described(_WHOLE, "The pod's part of its node's pressureAccountedFor."),
    min=_WHOLE,
    max=_WHOLE,
)
_RESERVATION_STATE: Final[Json] = {"enum": ["binding", "repeated", "bound", "unsure", "doubted", "seen"]}

_PODS: Final = _list(
    "Pods that count on a node.",
    _object(
        **_POD,
        node=_TEXT,
        state=_RESERVATION_STATE,
        askInSeconds=_described(_SECONDS_OR_NULL, "When the pod is read, if the watch has not shown it until then."),
        vertical=_described(_YES_NO, "It grows in place: a VM, or a plain pod with bounds."),
        priority=_WHOLE,
        cpu=_POD_NUMBERS,
        memory=_POD_NUMBERS,
    ),
)
_HOLDS: Final = _list(
    "Room kept on nodes for pods that are not bound there yet.",
    _object(
        **_POD,
        cause=_described(
            {"enum": list(get_args(Cause))},
            "What the room waits for: a bind, that of a former try, a preemption, the drain of the pod's node, its migration.",
        ),
        node=_TEXT,
        amounts=_AMOUNTS,
        endsInSeconds=_described(_SECONDS_OR_NULL, "Null for a migration's target node: it ends with the migration."),
        nominee=_described(
            _WHOLE_OR_NULL,
            "The pod's priority, while the node was only named to kube-scheduler: more important pods do not count the room as "
            "held. Null for all others.",
        ),
    ),
)
_PERMITS: Final = _list(
    "What is known of each counted pod that grows in place. Seconds count from the dump; those that have passed are negative.",
    _object(
        **_POD,
        on=_described({"enum": ["machine", "pod", None]}, "The object that carries the annotation."),
        permit=_described(_AMOUNTS_OR_NULL, "As written; null where there is no annotation that can be read."),
        limit=_AMOUNTS_OR_NULL,
        writing=_described({"type": ["object", "null"]}, "What a write under way says."),
        doubted=_list("What writes that failed said, the least and the most: it may stand there all the same.", _VALUE),
        heardInSeconds=_described(_SECONDS_OR_NULL, "The agent's last request to this process."),
        deniedSinceSeconds=_SECONDS_OR_NULL,
        exact=_described(_YES_NO, "Counted by what is known, not by a guess after a restart."),
        fenced=_described(
            _YES_NO,
            "Whether every permit write of a former process has ended, so that none can change the annotation any more.",
        ),
        foundOn=_described(_TEXT_OR_NULL, "The annotation that it counts by until its agent is heard."),
        doubtful=_described(_YES_NO, "That annotation may have arrived late: until then all of it is Buffer."),
        permitted=_described(_AMOUNTS_OR_NULL, "Of a plain pod: its permit, to which its node may not have resized it yet."),
        resizedFrom=_AMOUNTS_OR_NULL,
        has=_described(_AMOUNTS_OR_NULL, "The most that its agent has: its last permit, less what it has given back since."),
        load=_described({"type": ["object", "null"]}, "What the agent last measured."),
        odd=_described(_YES_NO, "Whether the agent has asked for an amount that is no multiple of its compute unit."),
        urgent=_described(_YES_NO, "An answer waits for the permit limit to be written."),
        behind=_described(_YES_NO, "Has grown into room that is still written as others'; answered when that is written."),
        attempts=_WHOLE,
        oscillating=_described(_WHOLE, "How often in a row its permit limit was lowered too soon."),
        loweredFrom=_AMOUNTS_OR_NULL,
        writtenInSeconds=_SECONDS_OR_NULL,
        settleInSeconds=_described(_SECONDS_OR_NULL, "When the annotation is written lazily."),
        settleFor=_AMOUNTS_OR_NULL,
        vertical=_described(_VALUE, "The workload as the pod's annotations and labels tell it."),
    ),
)
_QUEUE: Final = _list(
    "For each node, the machines that may migrate away, in the order in which they leave.",
    _object(
        node=_TEXT,
        **_POD,
        load1Micro=_described(_WHOLE_OR_NULL, "The one-minute load in millionths; null where none was reported."),
        joined=_described(_WHOLE, "Of equal loads, the lower one leaves first."),
    ),
)
_MIGRATIONS: Final = _list(
    "Migrations that were decided or found, until they end; `namespace` and `name` are the VirtualMachineMigration's.",
    _object(
        **_NAME,
        machine=_TEXT,
        pod=_described(_TEXT_OR_NULL, "UID of the pod that leaves; null where it is not known."),
        source=_TEXT_OR_NULL,
        targetNode=_described(_TEXT_OR_NULL, "The node on which room is kept."),
        amounts=_AMOUNTS,
        created=_described(_YES_NO, "The object is there."),
        phase=_TEXT_OR_NULL,
        target=_described(_TEXT_OR_NULL, "UID of the pod that arrives."),
        targetInSeconds=_SECONDS_OR_NULL,
        landed=_YES_NO,
    ),
)
_OBJECTS: Final = _described(
    _object(
        kinds=_list("Each kind of pods once.", _VALUE),
        nodes=_list("Nodes.", _VALUE),
        pods=_list("Pods; `kind` is an index.", _VALUE),
        budgets=_list("PodDisruptionBudgets.", _VALUE),
    ),
    "What the API server reported, as far as some decision reads it: enough to load the dump again.",
)

STATE: Final = _described(
    _object(
        version=_TEXT,
        kubernetes=_described(
            _object(version=_TEXT, featureGates={"type": "object", "additionalProperties": _YES_NO}),
            "The version of kube-scheduler whose rules hold, and the feature gates that were set.",
        ),
        generation=_WHOLE,
        synced=_YES_NO,
        paused=_described(
            {"type": "object", "additionalProperties": _TEXT}, "Activities that a person has paused, and the note of each."
        ),
        nodes=_list(
            "Nodes.", _object(name=_TEXT, cpu=_NODE_NUMBERS, memory=_NODE_NUMBERS, ready=_YES_NO, unschedulable=_YES_NO)
        ),
        pods=_PODS,
        pending=_list(
            "Pods without a node.",
            _object(**_POD, schedulerName=_TEXT, priority=_WHOLE, requests=_AMOUNTS, message=_TEXT_OR_NULL),
        ),
        holds=_HOLDS,
        quarantine=_list(
            "Nodes whose sums are in doubt: nothing new is put there.",
            _object(node=_TEXT, why=_TEXT, sinceSeconds=_SECONDS),
        ),
        nominations=_list("Nominations under way.", _object(**_POD, node=_TEXT, tried=_list("Nodes tried so far.", _TEXT))),
        deniedBinds=_list(
            "Denied binds that are remembered.",
            _object(
                uid=_TEXT,
                node=_TEXT,
                endsInSeconds=_SECONDS,
                forRoom=_described(_YES_NO, "There was no room: forgotten as soon as some appears."),
            ),
        ),
        gates=_list(
            "Preemptions: pending pods that others have to leave for.",
            _object(
                **_POD,
                shut=_described(_YES_NO, "filter answers `gated`."),
                phase={
                    "enum": ["agreed", "announcing", "evicting", "opened", "returned"],
                    "description": "How far it is. agreed: kube-scheduler preempts. opened: all are gone. returned: to bind.",
                },
                node=_described(_TEXT, "Where room is made, and kept."),
                priority=_WHOLE,
                waitingFor=_list("UIDs of the pods that have to leave.", _TEXT),
                sinceSeconds=_SECONDS,
                endsInSeconds=_described(_SECONDS, "It is given up then."),
            ),
        ),
        epoch=_described(_WHOLE, "Of this process: it stands in each annotation that it writes."),
        permits=_PERMITS,
        migrationQueue=_QUEUE,
        migrations=_MIGRATIONS,
        migrationBackoffs=_list(
            "VirtualMachines that could not leave, and how long others come first.",
            _object(**_NAME, failures=_WHOLE, endsInSeconds=_SECONDS),
        ),
        migrationCleanups=_list(
            "Finished migrations that are being deleted, and when that is tried again.",
            _object(**_NAME, dueInSeconds=_SECONDS),
        ),
        permitsOnPods=_list(
            "What writes of permits on pods answered; it counts until the watch shows the pod at that version.",
            _object(uid=_TEXT, version=_WHOLE, text=_TEXT_OR_NULL),
        ),
        virtualMachines=_list("VirtualMachines, as far as some decision reads them.", _VALUE),
        virtualMachineMigrations=_list("VirtualMachineMigrations, by whomever they were created.", _VALUE),
        objects=_OBJECTS,
        autoscaler={
            "anyOf": [{"type": "object"}, {"type": "null"}],
            "description": "What the last loop of the autoscaler saw and did; null where it does not run, or before its first.",
        },
        configuration={"type": "object", "description": "The configuration in force."},
    ),
    "The whole state; quantities are milliCPU and bytes.",
)


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
