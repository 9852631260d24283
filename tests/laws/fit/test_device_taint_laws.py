"""A rule's taint counts as if the driver had published it: the verdicts and the devices are the same."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.app.offline import placement_lines
from slackwater.app.offline.cluster import read_cluster
from slackwater.app.offline.version import VersionRequest
from slackwater.model.kubernetes_rules import KubernetesVersion
from tests.support.answers import json_of
from tests.support.devices import Obj, ask, claim_body, class_body, device, devices_of, node_body, pod_body, slice_body

_RULES = VersionRequest(version=KubernetesVersion.parse("1.37"))
_DRIVERS = ("gpu.example.com", "nic.example.com")
_POOLS = ("a", "b", "everywhere")
_DEVICES = ("d0", "d1", "d2")

taints = st.fixed_dictionaries(
    {"key": st.sampled_from(("sick", "old")), "effect": st.sampled_from(("NoSchedule", "NoSchedule", "NoExecute", "None"))}
)
selectors = st.fixed_dictionaries(
    {},
    optional={"driver": st.sampled_from(_DRIVERS), "pool": st.sampled_from(_POOLS), "device": st.sampled_from(_DEVICES)},
)
#: How many devices a request asks for.
counts: tuple[int | str, ...] = (1, 1, 2, "All")
rules = st.lists(st.tuples(st.none() | selectors, taints), max_size=4)


@st.composite
def slices(draw: st.DrawFn) -> list[Obj]:
    """Up to one slice for each driver and pool, with up to three devices, some with taints of their own."""
    made = []
    for driver in _DRIVERS:
        for pool in _POOLS:
            own = draw(st.lists(st.lists(taints, max_size=1), max_size=3))
            devices = [device(name, taints=each) for name, each in zip(_DEVICES, own, strict=False)]
            where: dict[str, Any] = {"allNodes": True} if pool == "everywhere" else {}
            spec = {"driver": driver, "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}, **where}
            if devices:
                made.append(slice_body(pool, *devices, name=f"{driver}-{pool}", **spec))
    return made


@st.composite
def claims(draw: st.DrawFn) -> Obj:
    """What a pod asks for: up to two requests of either driver's class, some with tolerations."""
    asks = []
    for _ in range(draw(st.integers(1, 2))):
        tolerated = draw(st.sampled_from(([], [{"key": "sick", "operator": "Exists"}], [{"operator": "Exists"}])))
        count = draw(st.sampled_from(counts))
        asks.append(ask(count, of=draw(st.sampled_from(("gpu", "nic"))), tolerations=tolerated))
    return devices_of(*asks)


def selects(selector: Obj | None, one: Obj, name: str) -> bool:
    """Whether a rule selects a device, by the words of the API alone."""
    if selector is None:
        return False
    have = {"driver": one["spec"]["driver"], "pool": one["spec"]["pool"]["name"], "device": name}
    return all(have[key] == value for key, value in selector.items())


def written_in(published: list[Obj], drawn: list[tuple[Obj | None, Obj]]) -> list[Obj]:
    """The slices with the rules' taints among those of the devices."""
    changed = copy.deepcopy(published)
    for one in changed:
        for each in one["spec"]["devices"]:
            more = [taint for selector, taint in drawn if selects(selector, one, each["name"])]
            each["taints"] = [*each.get("taints", ()), *more]
    return changed


def lines(items: list[Obj]) -> list[Obj]:
    """Verdicts and devices, the pods placed in turn; not the notes, which name kinds that a file lacks."""
    found = read_cluster({"apiVersion": "v1", "kind": "List", "items": items}, request=_RULES)
    return [{**line, "skipped": None} for line in map(json_of, placement_lines(found, sequential=True))]


@settings(max_examples=100, deadline=None)
@given(slices(), rules, st.lists(claims(), min_size=1, max_size=3))
def test_a_taint_by_rule_is_a_taint_of_the_device(
    published: list[Obj], drawn: list[tuple[Obj | None, Obj]], asked: list[Obj]
) -> None:
    classes = [class_body(name, f'device.driver == "{driver}"') for name, driver in zip(("gpu", "nic"), _DRIVERS, strict=True)]
    pods = [pod_body(f"p{at}", f"c{at}") for at in range(len(asked))]
    rest = [node_body("a"), node_body("b"), *classes, *(claim_body(f"c{at}", each) for at, each in enumerate(asked)), *pods]
    by_rule = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceTaintRule",
            "metadata": {"name": f"rule-{at}"},
            "spec": {"taint": taint} if selector is None else {"taint": taint, "deviceSelector": selector},
        }
        for at, (selector, taint) in enumerate(drawn)
    ]
    assert lines([*rest, *published, *by_rule]) == lines([*rest, *written_in(published, drawn)])
