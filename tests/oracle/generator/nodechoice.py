"""What a pod says about nodes: selector, node affinity, tolerations, host ports."""

from collections.abc import Sequence
from typing import Final

from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.labels import HOSTNAME, NODE_LABELS
from tests.oracle.generator.nodes import TAINT_KEYS, TAINT_VALUES

_ADDRESSES: Final = ("", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1")
_PROTOCOLS: Final = ("TCP", "TCP", "UDP", "SCTP")
_PORTS: Final = (80, 443, 8080)


def choose_nodes(draw: Draw, spec: Obj, node_names: Sequence[str]) -> None:
    """Sets nodeSelector, affinity.nodeAffinity and tolerations of a pod's spec."""
    if draw.about("affinity", 0.2):
        key = draw.pick(list(NODE_LABELS))
        spec["nodeSelector"] = {key: draw.pick(NODE_LABELS[key])}
    affinity: Obj = {}
    if draw.about("affinity", 0.45):
        terms = [_term(draw, node_names) for _ in range(draw.pick((1, 1, 2, 3)))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if draw.chance(0.1) or draw.about("affinity", 0.3):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": draw.number(1, 100), "preference": _preference(draw, node_names)} for _ in range(draw.number(1, 3))
        ]
    if affinity:
        spec.setdefault("affinity", {})["nodeAffinity"] = affinity
    if tolerations := [_toleration(draw) for _ in range(4) if draw.about("taints", 0.35)]:
        spec["tolerations"] = tolerations


def _term(draw: Draw, node_names: Sequence[str]) -> Obj:
    shape = draw.pick(("labels",) * 6 + ("fields", "both", "empty"))
    term: Obj = {}
    if shape in ("labels", "both"):
        term["matchExpressions"] = [_requirement(draw) for _ in range(draw.pick((1, 1, 2)))]
    if shape in ("fields", "both"):
        operators = draw.some(("In", "In", "NotIn"), 1, 2)
        term["matchFields"] = [
            {"key": "metadata.name", "operator": operator, "values": [draw.pick((*node_names, "gone"))]}
            for operator in operators
        ]
    return term


def _preference(draw: Draw, node_names: Sequence[str]) -> Obj:
    """A term without a Gt or Lt of no integer: kube-scheduler ignores it where required, and fails the pod where preferred."""
    term = _term(draw, node_names)
    for requirement in term.get("matchExpressions", ()):
        if requirement["operator"] in ("Gt", "Lt"):
            requirement["values"] = [str(draw.number(0, 9))]
    return term


def _requirement(draw: Draw) -> Obj:
    operator = draw.pick(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {
            "key": draw.pick(("gen", "gen", "disk")),
            "operator": operator,
            "values": [draw.pick(("0", "5", "9", "006", "x", "1.5"))],
        }
    key = draw.pick((*NODE_LABELS, HOSTNAME, "absent"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": draw.some(NODE_LABELS.get(key, ("n0", "node-1")), 1, 2)}


def _toleration(draw: Draw) -> Obj:
    if draw.chance(0.1):
        return {"operator": "Exists"}
    made: Obj = {"key": draw.pick(TAINT_KEYS)}
    if draw.chance(0.4):
        made["operator"] = "Exists"
    else:
        # No operator means Equal.
        made |= {"value": draw.pick(TAINT_VALUES)} | ({"operator": "Equal"} if draw.chance(0.5) else {})
    if draw.chance(0.7):
        made["effect"] = draw.pick(("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"))
    if made.get("effect") == "NoExecute" and draw.chance(0.5):
        made["tolerationSeconds"] = draw.pick((0, 60))
    return made


def host_ports(draw: Draw, spec: Obj) -> None:
    """Gives some containers ports of the host; with hostNetwork the API server makes every port one."""
    if draw.about("ports", 0.15):
        spec["hostNetwork"] = True
    taken: set[tuple[int, str, str]] = set()  # twice in one pod is refused
    for made in (*spec["containers"], *spec.get("initContainers", ())):
        if not draw.about("ports", 0.7):
            continue
        made["ports"] = []
        for _ in range(draw.number(1, 2)):
            number, protocol, address = draw.pick(_PORTS), draw.pick(_PROTOCOLS), draw.pick(_ADDRESSES)
            if (number, protocol, address) in taken:
                continue
            taken.add((number, protocol, address))
            port: Obj = {"containerPort": number, "protocol": protocol}
            if draw.chance(0.85):
                port["hostPort"] = number
            if address:
                port["hostIP"] = address
            made["ports"].append(port)
