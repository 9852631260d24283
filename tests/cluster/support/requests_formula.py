"""What pods ask of their nodes, worked out from the API server's JSON: the other side of every comparison here.

Written from the Kubernetes documentation alone and in another way than the service's own (fractions instead of integers,
one pass over a pod's life instead of running sums), so that the two can disagree.
"""

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

_SUFFIXES: Final = {
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    "m": Fraction(1, 1000),
    "u": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
}


class Asked(NamedTuple):
    """milliCPU and bytes."""

    cpu: int = 0
    memory: int = 0


def quantity(text: str) -> Fraction:
    """A Kubernetes quantity, exactly."""
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return Fraction(Decimal(text.removesuffix(suffix))) * factor
    return Fraction(Decimal(text))


def asked_by(pod: Mapping[str, Any]) -> Asked:
    """What the pod counts for on its node."""
    return Asked(math.ceil(_of(pod["spec"], "cpu") * 1000), math.ceil(_of(pod["spec"], "memory")))


def counts(pod: Mapping[str, Any]) -> bool:
    """Whether it takes room on a node: bound, and not at its end."""
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in {"Succeeded", "Failed"}


def total_by_node(pods: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]]) -> dict[str, Asked]:
    """For each of the nodes the sum over the pods that count there."""
    sums = {node["metadata"]["name"]: Asked() for node in nodes}
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if counts(pod) and name in sums:
            asked, before = asked_by(pod), sums[name]
            sums[name] = Asked(before.cpu + asked.cpu, before.memory + asked.memory)
    return sums


def _of(spec: Mapping[str, Any], resource: str) -> Fraction:
    whole = spec.get("resources", {}).get("requests", {}).get(resource)
    needed = quantity(whole) if whole is not None else max(_moments(spec, resource))
    return needed + quantity(spec.get("overhead", {}).get(resource, "0"))


def _moments(spec: Mapping[str, Any], resource: str) -> Iterable[Fraction]:
    """What runs at each moment of the pod's life: each init container in its turn beside the sidecars so far, then the rest."""
    sidecars = Fraction(0)
    for container in spec.get("initContainers", []):
        if container.get("restartPolicy") == "Always":
            sidecars += _request(container, resource)
            yield sidecars
        else:
            yield sidecars + _request(container, resource)
    yield sidecars + sum((_request(container, resource) for container in spec["containers"]), Fraction(0))


def _request(container: Mapping[str, Any], resource: str) -> Fraction:
    return quantity(container.get("resources", {}).get("requests", {}).get(resource, "0"))
