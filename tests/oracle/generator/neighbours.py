"""What a pod says about other pods: affinity and anti-affinity, and spreading over domains."""

from typing import Final

from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.labels import HOSTNAME, NAMESPACE_LABELS, POD_LABELS, RACK, REGION, ZONE, selector

_DOMAINS: Final = (ZONE, ZONE, HOSTNAME, HOSTNAME, RACK, REGION, "absent")
_NAMESPACES: Final = ("default", "web", "batch", "unlisted")
_POLICIES: Final = ("Honor", "Ignore")


def pod_affinity(draw: Draw, spec: Obj) -> None:
    """Sets affinity.podAffinity and affinity.podAntiAffinity."""
    for field, share in (("podAffinity", 0.25), ("podAntiAffinity", 0.35)):
        made: Obj = {}
        if draw.about("between", share):
            made["requiredDuringSchedulingIgnoredDuringExecution"] = [_term(draw) for _ in range(draw.pick((1, 1, 1, 2)))]
        if draw.chance(0.04) or draw.about("between", 0.2):
            made["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": draw.number(1, 100), "podAffinityTerm": _term(draw)} for _ in range(draw.number(1, 2))
            ]
        if made:
            spec.setdefault("affinity", {})[field] = made


def _term(draw: Draw) -> Obj:
    term: Obj = {"topologyKey": draw.pick(_DOMAINS)}
    if draw.chance(0.93):
        term["labelSelector"] = selector(draw, POD_LABELS)
    if draw.chance(0.25):
        term["namespaces"] = draw.some(_NAMESPACES, 1, 2)
    if draw.chance(0.25):
        term["namespaceSelector"] = {} if draw.chance(0.3) else selector(draw, NAMESPACE_LABELS)
    if "labelSelector" in term and draw.chance(0.3):
        # A key may be named once only, here or in the selector.
        free = [key for key in (*POD_LABELS, "absent") if key not in _keys(term["labelSelector"])]
        matching = draw.some(free, 0, 1)
        other = draw.some([key for key in free if key not in matching], 0, 1)
        term |= {"matchLabelKeys": matching} if matching else {}
        term |= {"mismatchLabelKeys": other} if other else {}
    return term


def _keys(made: Obj) -> set[str]:
    return {*made.get("matchLabels", ()), *(expression["key"] for expression in made.get("matchExpressions", ()))}


def spread(draw: Draw, spec: Obj) -> None:
    """Sets topologySpreadConstraints."""
    if not (draw.chance(0.02) or draw.about("spread", 0.6)):
        return
    made: dict[tuple[str, str], Obj] = {}
    for _ in range(draw.pick((1, 1, 1, 2, 3))):
        when = draw.pick(("DoNotSchedule", "DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"))
        constraint = _constraint(draw, when)
        made[constraint["topologyKey"], when] = constraint
    spec["topologySpreadConstraints"] = list(made.values())


def _constraint(draw: Draw, when: str) -> Obj:
    made: Obj = {"maxSkew": draw.pick((1, 1, 1, 2, 3)), "topologyKey": draw.pick(_DOMAINS[:-1]), "whenUnsatisfiable": when}
    if draw.chance(0.03):
        made["topologyKey"] = "absent"
    if draw.chance(0.95):
        # Mostly one that counts many pods, else no skew comes about.
        broad: Obj = draw.pick(
            ({}, {"matchLabels": {"app": "a"}}, {"matchExpressions": [{"key": "app", "operator": "Exists"}]})
        )
        made["labelSelector"] = broad if draw.chance(0.6) else selector(draw, POD_LABELS)
    if when == "DoNotSchedule" and draw.chance(0.3):
        made["minDomains"] = draw.number(1, 5)
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if draw.chance(0.45):
            made[field] = draw.pick(_POLICIES)
    if "labelSelector" in made and draw.chance(0.3):
        free = [key for key in (*POD_LABELS, "absent") if key not in _keys(made["labelSelector"])]
        if keys := draw.some(free, 0, 2):
            made["matchLabelKeys"] = keys
    return made
