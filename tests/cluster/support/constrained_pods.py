"""Pods with constraints of many kinds, and the real plug-ins' word on where they were put.

bodies = [a_constrained_pod(number, n_nodes=120) for number in range(400)]
problems = misplaced(program, nodes, pods, order)     # `order`: names as they were bound
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from tests.cluster.support.bodies import a_pod
from tests.oracle.real import running

Json = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
ZONES: Final = ("a", "b", "c")
TAINT: Final = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
_TOLERATION: Final = {"key": "dedicated", "operator": "Exists"}
_SIZES: Final = (("100m", "128Mi"), ("250m", "512Mi"), ("1", "1Gi"), ("500m", "2Gi"))
_SORTS: Final = ("plain", "ssd", "batch", "spread", "loose", "alone", "together", "near")
_N_SORTS: Final = len(_SORTS)
_PREFIX: Final = "w-"
_LIMBO: Final = "limbo"
#: Binds are concurrent: of decisions made one after the other the later one's bind may come first.
_OUT_OF_ORDER: Final = 3


def a_constrained_pod(number: int, *, n_nodes: int) -> Json:
    """The `number`-th pod: every eighth has the same sort of constraints. Groups are small enough for so many nodes."""
    group = str(number // _N_SORTS // max(1, n_nodes // 4))
    cpu, memory = _SIZES[number // _N_SORTS % len(_SIZES)]
    app = f"{_SORTS[number % _N_SORTS]}-{group}"
    selector = {"matchLabels": {"app": app}}
    return a_pod(
        f"{_PREFIX}{number:05}", cpu=cpu, memory=memory, labels={"app": app}, **_constraints(number % _N_SORTS, selector)
    )


def _constraints(sort: int, selector: Json) -> Json:
    term = {"labelSelector": selector, "topologyKey": HOST}
    spread = {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    prefers = {"weight": 50, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}}
    constraints: list[Json] = [
        {},
        {"nodeSelector": {"disk": "ssd"}},
        {
            "tolerations": [_TOLERATION],
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [prefers]}},
        },
        {"topologySpreadConstraints": [spread]},
        {"topologySpreadConstraints": [{**spread, "maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "topologyKey": ZONE}]}}},
        {
            "affinity": {
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term}]}
            }
        },
    ]
    return constraints[sort]


def misplaced(program: Path, nodes: Iterable[Json], pods: Mapping[str, Json], order: Sequence[str]) -> list[str]:
    """The pods that the real plug-ins would not have put where they are, each in its turn; one sentence each.

    All of them stand on a node that is none of theirs at first, and leave it in the order of their binds.
    """
    limbo = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": _LIMBO},
        "status": {"allocatable": {"cpu": "1M", "memory": "1Pi", "pods": "1000000"}},
    }
    moves = [{"pod": _name(pods[name]), "to": pods[name]["spec"]["nodeName"]} for name in order]
    cluster = {
        "apiVersion": "v1",
        "kind": "List",
        # Items of a list do not say what they are.
        "items": [
            *({**node, "apiVersion": "v1", "kind": "Node"} for node in nodes),
            limbo,
            *(_before(pods[name]) for name in order),
        ],
        "steps": [{"node": _LIMBO, "moves": moves}],
    }
    with running(program, "replay") as real:
        lines = real.judge(cluster)
    assert len(lines) == len(order), f"{len(lines)} pods judged, want {len(order)}"
    return [f"{line['pod']} on {line['to']}: {line.get('verdict') or line.get('failed')}" for line in lines if not line["fits"]]


def _before(pod: Json) -> Json:
    rebuild = {**deepcopy(pod), "apiVersion": "v1", "kind": "Pod"}
    rebuild["spec"]["nodeName"], rebuild["status"] = _LIMBO, {"phase": "Running"}
    for constraint in rebuild["spec"].get("topologySpreadConstraints", ()):
        constraint["maxSkew"] += _OUT_OF_ORDER
    return rebuild


def _name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
