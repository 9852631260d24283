"""How good placements are, by kube-scheduler's own standards. Pure: nodes and pods as the API has them -> numbers.

The workload that is judged so is made here too: pods that want much and insist on nothing, so that where they go is a matter
of taste.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any, Final

from slackwater_protocol.units import parse_nanos
from tests.bench.objects import a_node, a_plain_pod, node_name

Json = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
_SSD: Final = {"key": "disk", "operator": "In", "values": ["ssd"]}
_IMAGE_BYTES: Final = 800 << 20
_N_IMAGES: Final = 6
_WISHES: Final = ("room", "disk", "zones", "hosts", "apart", "near", "image")
#: Pods of one app, all with the same wish.
_APP: Final = 30


def a_varied_node(number: int) -> Json:
    """Three zones, a quarter with an SSD, one of six large images on each; of one size, as our score prefers larger nodes."""
    node = a_node(number, cpu="16", memory="64Gi")
    if number % 4 == 0:
        node["metadata"]["labels"]["disk"] = "ssd"
    node["status"]["images"] = [{"names": [_image(number % _N_IMAGES)], "sizeBytes": _IMAGE_BYTES}]
    return node


def a_fond_pod(number: int) -> Json:
    """It prefers something, by the app that it is of."""
    wish, app = _app_of(number)
    pod = a_plain_pod(number)
    pod["metadata"]["labels"] = {"app": app}
    pod["spec"] |= _preferring(wish, {"matchLabels": {"app": app}})
    if wish == "image":
        pod["spec"]["containers"][0]["image"] = _image(_number_of(app) % _N_IMAGES)
    return pod


def _app_of(number: int) -> tuple[str, str]:
    wish = _WISHES[number % len(_WISHES)]
    return wish, f"{wish}-{number // len(_WISHES) // _APP}"


def _number_of(app: str) -> int:
    return int(app.rpartition("-")[2])


def _image(number: int) -> str:
    return f"registry.example/large-{number}:1"


def _preferring(wish: str, selector: Json) -> Json:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    spread = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
    term = {"weight": 50, "podAffinityTerm": {"labelSelector": selector, "topologyKey": ZONE if wish == "near" else HOST}}
    match wish:
        case "disk":
            return {"affinity": {"nodeAffinity": {preferred: [{"weight": 50, "preference": {"matchExpressions": [_SSD]}}]}}}
        case "zones" | "hosts":
            return {"topologySpreadConstraints": [{**spread, "topologyKey": ZONE if wish == "zones" else HOST}]}
        case "apart":
            return {"affinity": {"podAntiAffinity": {preferred: [term]}}}
        case "near":
            return {"affinity": {"podAffinity": {preferred: [term]}}}
        case _:
            return {}


class Placements:
    """Where each of `a_fond_pod(0 .. n)` stands. `node_of` by the pod's name; nodes are those of `a_varied_node`."""

    def __init__(self, n_nodes: int, pods: Sequence[Json], node_of: Mapping[str, str]) -> None:
        self._nodes = {node_name(number): a_varied_node(number) for number in range(n_nodes)}
        self._pods = [(pod, self._nodes[node_of[pod["metadata"]["name"]]]) for pod in pods]

    def spread(self, resource: str) -> float:
        """How unevenly nodes are requested: the standard deviation of their shares, in percentage points."""
        asked: Counter[str] = Counter()
        for pod, node in self._pods:
            for container in pod["spec"]["containers"]:
                asked[node["metadata"]["name"]] += parse_nanos(container["resources"]["requests"][resource])
        return pstdev(
            100 * asked[name] / parse_nanos(node["status"]["allocatable"][resource]) for name, node in self._nodes.items()
        )

    def on_ssd(self) -> float:
        """Of the pods that would like an SSD, the share that has one."""
        return _share(node["metadata"]["labels"].get("disk") == "ssd" for _, node in self._of("disk"))

    def zone_skew(self) -> float:
        """Of apps that spread over zones: how many more stand in the fullest zone than in the emptiest, in the mean."""
        counts = self._counts("zones", _zone).values()
        return fmean(max(each.values()) - min(each[zone] for zone in "abc") for each in counts)

    def alone(self) -> float:
        """Of the pods that would like to stand apart from their app's others, the share that does."""
        counts = {**self._counts("hosts", _name), **self._counts("apart", _name)}
        return sum(n for each in counts.values() for n in each.values() if n == 1) / sum(c.total() for c in counts.values())

    def near(self) -> float:
        """Of the pods that would like to stand in one zone, the share that is where most of their app are."""
        counts = self._counts("near", _zone).values()
        return sum(max(each.values()) for each in counts) / sum(each.total() for each in counts)

    def with_image(self) -> float:
        """Of the pods with a large image, the share on nodes that have it."""
        pods = ((pod["spec"]["containers"][0]["image"], node["status"]["images"]) for pod, node in self._of("image"))
        return _share(image in images[0]["names"] for image, images in pods)

    def _of(self, wish: str) -> list[tuple[Json, Json]]:
        return [(pod, node) for pod, node in self._pods if _wish(pod) == wish]

    def _counts(self, wish: str, where: Callable[[Json], str]) -> dict[str, Counter[str]]:
        """By app, how many stand in each place."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for pod, node in self._of(wish):
            counts[pod["metadata"]["labels"]["app"]][where(node)] += 1
        return counts


def _wish(pod: Json) -> str:
    return str(pod["metadata"]["labels"]["app"].rpartition("-")[0])


def _zone(node: Json) -> str:
    return str(node["metadata"]["labels"][ZONE])


def _name(node: Json) -> str:
    return str(node["metadata"]["name"])


def _share(met: Iterable[bool]) -> float:
    return fmean(met)
