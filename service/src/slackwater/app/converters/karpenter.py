"""Turns Karpenter's NodePools and the prices of its NodeOverlays into our configuration file, field by field.

In: objects. Out: `Converted`. With the provider karpenter, NodePools stay where they are, and the file says to read them. With
another one each becomes a group, with the setting of each of its fields or why there is none: an absent field has Karpenter's
default, and nodes of a group have one shape, so a requirement with several values has no counterpart.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from slackwater.adapters.cloud.karpenter.objects import BudgetWire
from slackwater.adapters.cloud.karpenter.pools import stops
from slackwater.adapters.kube.config_maps import PRIORITIES_CONFIG_MAP
from slackwater.adapters.kube.node_overlays import decode_overlay
from slackwater.app.converters.cluster_autoscaler import group_name
from slackwater.app.converters.draft import ConversionError, Converted, Draft, nearest, plain
from slackwater.app.converters.workloads import Manifest
from slackwater.model.node_taints import STARTUP_TAINTS
from slackwater.model.objects import CAPACITY_TYPE, NODE_POOL
from slackwater.model.prices import PriceOverlay
from slackwater.model.texts import first_few
from slackwater_protocol.money import decimal_text

_API_GROUP: Final = "karpenter.sh/"
_API: Final = f"{_API_GROUP}v1"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_GROUPS: Final = "autoscaler.nodeGroups"
_NEVER: Final = "Never"
_ABSENT: Final = "not given, so Karpenter's default holds"
_PERCENT_MICROS: Final = 100 * 10**6
#: The classes of machines, which belong to the provider.
NODE_CLASSES: Final = frozenset({"EC2NodeClass", "AKSNodeClass", "KWOKNodeClass", "GCENodeClass", "NodeClass"})
_TEMPLATE: Final = "spec.template"
_SPEC: Final = "spec.template.spec"
_DISRUPTION: Final = "spec.disruption"
#: The fields of a NodePool without a counterpart, and why. Each other one is in `_Pool.convert`.
_WITHOUT: Final = {
    f"{_TEMPLATE}.metadata.annotations": "a template has no annotations",
    f"{_SPEC}.nodeClassRef": "machines are the provider's: a NodeClass is not read",
    f"{_SPEC}.terminationGracePeriod": "a drain is abandoned after autoscaler.scaleDown.drain.deadline; "
    "autoscaler.scaleDown.drain.force deletes pods whose eviction takes too long",
}
_FIELDS: Final = frozenset(
    {
        *_WITHOUT,
        *(f"spec.{key}" for key in ("weight", "limits", "replicas")),
        f"{_TEMPLATE}.metadata.labels",
        *(f"{_SPEC}.{key}" for key in ("requirements", "taints", "startupTaints", "expireAfter")),
        *(f"{_DISRUPTION}.{key}" for key in ("consolidationPolicy", "consolidateAfter", "budgets")),
    }
)
#: The provider that reads NodePools itself.
READING: Final = "karpenter"
_PROVIDER: Final = f"autoscaler.providers.{READING}"
_THERE: Final = "read from the NodePool in each loop"
_COPIED: Final = "copied to each NodeClaim"
#: Where that is not all.
_READ: Final = {
    f"{_TEMPLATE}.metadata.annotations": _COPIED,
    f"{_SPEC}.nodeClassRef": _COPIED,
    f"{_SPEC}.terminationGracePeriod": _COPIED,
    f"{_SPEC}.expireAfter": f"{_THERE}, and within budgets; Karpenter goes on to expire its own NodeClaims in spite of them",
}
_INNER: Final = frozenset({"spec", _TEMPLATE, f"{_TEMPLATE}.metadata", _SPEC, _DISRUPTION})


@dataclass(slots=True)
class _Shared:
    """What all pools say together. `weights`: of each group. `startup`: keys of taints. `policies`: of consolidation."""

    weights: dict[str, int] = field(default_factory=dict)
    startup: list[str] = field(default_factory=list)
    policies: set[str] = field(default_factory=set)
    spot: bool = False


def from_karpenter(objects: Iterable[Manifest], *, provider: str) -> Converted:
    """Converts all NodePools and NodeOverlays of the objects; `provider` creates the nodes. Raises `ConversionError`."""
    reads = provider == READING
    objects = list(objects)
    pools = [each for each in objects if each.kind == "NodePool" and each.api_version.startswith(_API_GROUP)]
    if not pools:
        seen = first_few(sorted({f"{each.kind} of {each.api_version}" for each in objects}), 3) or "nothing"
        raise ConversionError(f"NodePools of karpenter.sh: got {seen}, want at least one")
    titles = ", ".join(each.name for each in pools)
    draft = Draft(
        head=(f"From NodePools {titles}, by slackwater config from-karpenter.", "Comments say where values come from.")
    )
    draft.put("autoscaler.enabled", True, "Karpenter")
    shared, taken, entries = _Shared(), set[str](), list[tuple[Mapping[str, Any], str]]()
    for each in _readable(draft, pools):
        title = f"NodePool {each.name}"
        pool = _Pool(draft=draft, title=title, shared=shared, name=group_name(each.name, taken), provider=provider)
        if reads:
            pool.read_there(_tree(each))
        else:
            entries.append((pool.convert(_tree(each)), title))
    overlays = [each for each in objects if each.kind == "NodeOverlay"]
    if reads:
        _note_reading(draft, overlays)
    else:
        _overlays(draft, overlays, entries)
    for entry, title in entries:
        draft.add(_GROUPS, entry, title, "", "one group")
    _whole(draft, shared, reads=reads)
    for each in objects if not reads else ():
        if each.kind in NODE_CLASSES:
            draft.find(f"{each.kind} {each.name}", "", "no-counterpart", why="machines are the provider's: it is not read")
    return draft.done()


def _readable(draft: Draft, pools: Sequence[Manifest]) -> Iterator[Manifest]:
    """The NodePools whose fields can be read; the others are refused."""
    names = Counter(each.name for each in pools)
    for each in pools:
        title = f"NodePool {each.name}"
        if not _NAME.fullmatch(each.name):
            draft.find(title, each.name, "refused", why="want a name of lower case letters, digits, - and .")
        elif names[each.name] > 1:
            draft.find(title, "", "refused", why=f"got it {names[each.name]} times, want it once")
        elif each.api_version != _API:
            why = f"want apiVersion {_API}: its fields have other places; `kubectl get nodepools.v1.karpenter.sh` has them"
            draft.find(title, each.api_version, "refused", why=why)
        else:
            yield each


def _tree(each: Manifest) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.json.decode(each.raw)
    return tree


# --- one NodePool ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Pool:
    """A NodePool that becomes the entry `name` of the groups."""

    draft: Draft
    title: str
    shared: _Shared
    name: str
    provider: str
    _fields: dict[str, Any] = field(default_factory=dict)

    def convert(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        self._flatten(tree.get("spec") or {}, "spec")
        for path, why in _WITHOUT.items():
            if path in self._fields:
                self._find(path, "no-counterpart", why=why)
        taints = self._list(f"{_SPEC}.taints")
        entry: dict[str, Any] = {"name": self.name, "provider": self.provider, "minSize": 0, "maxNodesInCreation": 0}
        if (replicas := self._whole("spec.replicas")) is not None:
            entry |= {"minSize": replicas, "maxSize": replicas}
            self._find("spec.replicas", "taken", f"{_GROUPS}[].minSize", "and maxSize")
        entry["scaleDown"] = self._scale_down()
        entry["template"] = {"metadata": {"labels": self._labels()}, **({"spec": {"taints": taints}} if taints else {})}
        if taints:
            self._find(f"{_SPEC}.taints", "taken", f"{_GROUPS}[].template.spec.taints")
        self._startup_taints()
        self._limits()
        self.shared.weights[self.name] = weight = self._whole("spec.weight") or 0
        if weight:
            self._find("spec.weight", "taken", "autoscaler.expanders", "by the expander priority")
        return entry

    def read_there(self, tree: Mapping[str, Any]) -> None:
        """Notes what the provider karpenter makes of each field, and how the NodePool is handed over."""
        self._flatten(tree.get("spec") or {}, "spec")
        if "spec.replicas" in self._fields:
            self._find(
                "spec.replicas", "no-counterpart", why="Karpenter keeps the NodePool at this size; Slackwater leaves it alone"
            )
            return
        for path in self._fields:
            self._find(path, "taken", _PROVIDER, _READ.get(path, _THERE))
        self._startup_taints()
        self._labels()
        self.shared.policies.add(str(self._fields.get(f"{_DISRUPTION}.consolidationPolicy")))
        self.shared.weights[self.name] = self._whole("spec.weight") or 0
        said = self._list(path := f"{_DISRUPTION}.budgets")
        budgets = [{"nodes": "10%"}] if self._fields.get(path) is None else [each for each in said if not _stops(each)]
        limits = self._fields.get("spec.limits")
        if len(budgets) < len(said) and isinstance(limits, dict) and str(limits.get("nodes")) == "0":
            self.draft.find(f"{self.title}: hand it over", "", "taken", _PROVIDER, "it is handed over already")
            return
        patch = {"spec": {"limits": {"nodes": "0"}, "disruption": {"budgets": [*budgets, {"nodes": "0"}]}}}
        text = shlex.quote(msgspec.json.encode(patch).decode())
        why = f"once Slackwater runs: kubectl patch nodepool {self.title.split()[1]} --type merge --patch {text}"
        self.draft.find(f"{self.title}: hand it over", "", "to-do", why=why)

    def _flatten(self, part: Any, at: str) -> None:
        """Puts each known field into `_fields`; refuses an unknown one."""
        if not isinstance(part, dict):
            self.draft.find(f"{self.title} {at}", _shown(part), "refused", why="want a mapping")
            return
        for key, value in part.items():
            path = f"{at}.{key}"
            if path in _INNER:
                self._flatten({} if value is None else value, path)
            elif path in _FIELDS:
                self._fields[path] = value
            else:
                hint = nearest(path, _FIELDS)
                self.draft.find(f"{self.title} {path}", _shown(value), "refused", why=f"want a field of {_API}{hint}")

    def _find(self, path: str, verdict: Any, setting: str = "", why: str = "") -> None:
        self.draft.find(f"{self.title} {path}", _shown(self._fields.get(path, "")), verdict, setting, why)

    def _wrong(self, path: str, wanted: str) -> None:
        self._find(path, "refused", why=f"want {wanted}")

    def _list(self, path: str) -> list[dict[str, Any]]:
        found = self._fields.get(path) or []
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            self._wrong(path, "a list of mappings")
            return []
        return found

    def _whole(self, path: str) -> int | None:
        found = self._fields.get(path)
        if found is not None and (isinstance(found, bool) or not isinstance(found, int) or found < 0):
            self._wrong(path, "a whole number >= 0")
            return None
        return found

    def _labels(self) -> dict[str, Any]:
        path = f"{_TEMPLATE}.metadata.labels"
        labels = self._fields.get(path) or {}
        if not isinstance(labels, dict):
            self._wrong(path, "a mapping")
            labels = {}
        elif labels and self.provider != READING:
            self._find(path, "taken", f"{_GROUPS}[].template.metadata.labels")
        found = {NODE_POOL: self.name, **labels}
        for each in self._list(f"{_SPEC}.requirements"):
            key, values = str(each.get("key", "")), each.get("values")
            values = values if isinstance(values, list) else []
            flag, text = (
                f"{self.title} {_SPEC}.requirements",
                f"{key} {each.get('operator')} {','.join(map(str, values))}".strip(),
            )
            self.shared.spot |= key == CAPACITY_TYPE and "spot" in values
            if self.provider == READING:
                continue
            if each.get("operator") == "In" and len(values) == 1 and "minValues" not in each:
                found[key] = values[0]
                self.draft.find(flag, text, "taken", f"{_GROUPS}[].template.metadata.labels")
            else:
                why = "nodes of a group have one shape: write a group for each shape that is wanted, with its amounts"
                self.draft.find(flag, text, "no-counterpart", why=why)
        return found

    def _scale_down(self) -> dict[str, Any]:
        policy = self._fields.get(path := f"{_DISRUPTION}.consolidationPolicy", "WhenEmptyOrUnderutilized")
        if policy not in ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"):
            self._wrong(path, "WhenEmpty, WhenEmptyOrUnderutilized or Balanced")
        self.shared.policies.add(str(policy))
        budgets = [self._budget(each) for each in self._list(f"{_DISRUPTION}.budgets")]
        budgets = budgets if f"{_DISRUPTION}.budgets" in self._fields else [{"nodes": "10%"}]
        self._said(f"{_DISRUPTION}.budgets", "disruptionBudgets", "10%")
        if policy == "WhenEmpty":
            budgets.append({"nodes": 0, "reasons": ["Underutilized"]})
        self._said(path, "disruptionBudgets" if policy == "WhenEmpty" else "", str(policy), "autoscaler.consolidation")
        after = self._time(f"{_DISRUPTION}.consolidateAfter", "0s")
        if after == _NEVER:
            budgets.append({"nodes": 0, "reasons": ["Empty", "Underutilized"]})
        self._said(f"{_DISRUPTION}.consolidateAfter", "disruptionBudgets" if after == _NEVER else "unneededTime", "0s")
        expire = self._time(f"{_SPEC}.expireAfter", "720h")
        why = "within budgets, while Karpenter expires nodes in spite of them"
        self._said(f"{_SPEC}.expireAfter", "expireAfter", "720h", why=why)
        return {
            **({"unneededTime": after} if after != _NEVER else {}),
            "expireAfter": "0s" if expire == _NEVER else expire,
            "disruptionBudgets": budgets,
        }

    def _said(self, path: str, key: str, default: str, setting: str = "", why: str = "") -> None:
        given = path in self._fields
        text = _shown(self._fields[path]) if given else default
        why = "; ".join(each for each in (why, "" if given else _ABSENT) if each)
        self.draft.find(f"{self.title} {path}", text, "taken", f"{_GROUPS}[].scaleDown.{key}" if key else setting, why)

    def _time(self, path: str, default: str) -> str:
        found = self._fields.get(path, default)
        if not isinstance(found, str):
            self._wrong(path, f"a duration such as 720h, or {_NEVER}")
            return default
        return found

    def _budget(self, budget: Mapping[str, Any]) -> dict[str, Any]:
        for key in budget.keys() - {"nodes", "reasons", "schedule", "duration"}:
            hint = nearest(key, ("nodes", "reasons", "schedule", "duration"))
            self.draft.find(f"{self.title} {_DISRUPTION}.budgets", key, "refused", why=f"want a field of a budget{hint}")
        return {"nodes": "10%", **budget}

    def _startup_taints(self) -> None:
        if taints := self._list(path := f"{_SPEC}.startupTaints"):
            self.shared.startup += [str(each.get("key", "")) for each in taints]
            self._find(path, "taken", "autoscaler.scaleUp.startupTaints", "for all groups, with Slackwater's own")

    def _limits(self) -> None:
        limits = self._fields.get(path := "spec.limits") or {}
        if not isinstance(limits, dict):
            self._wrong(path, "a mapping of resources to quantities")
        elif limits:
            entry = {"name": self.name, "nodeLabels": {NODE_POOL: self.name}, "limits": limits}
            self.draft.add("autoscaler.scaleUp.quotas", entry, f"{self.title} {path}", _shown(limits))


def _stops(budget: Mapping[str, Any]) -> bool:
    """Whether it is the budget that hands a NodePool over."""
    nodes, reasons = str(budget.get("nodes")), budget.get("reasons")
    return stops(BudgetWire(nodes=nodes, reasons=reasons or None, schedule=budget.get("schedule")))


def _shown(value: Any) -> str:
    return plain(value if isinstance(value, str) else msgspec.json.encode(value).decode())


# --- all of them ----------------------------------------------------------------------------------------------------------


def _note_reading(draft: Draft, overlays: Iterable[Manifest]) -> None:
    draft.put(_PROVIDER, {}, "NodePools", why="Slackwater creates and deletes their NodeClaims")
    why = "without it Slackwater only buys variants that a NodeClaim shows; docs/karpenter.md says how to write it"
    draft.find("the file of instance types", "", "to-do", f"{_PROVIDER}.instanceTypes", why)
    for each in overlays:
        why = "write the price, or the amounts, into that file"
        draft.find(f"NodeOverlay {each.name}", "", "to-do", f"{_PROVIDER}.instanceTypes", why)


def _whole(draft: Draft, shared: _Shared, *, reads: bool) -> None:
    """The settings that no pool has for itself. `reads`: the provider knows the weights."""
    put = draft.put
    put(
        "autoscaler.expanders",
        ["priority", "price"] if any(shared.weights.values()) else ["price"],
        "Karpenter",
        why="the lowest price",
    )
    if any(shared.weights.values()) and not reads:
        ranks: dict[int, list[str]] = {}
        for name, weight in shared.weights.items():
            ranks.setdefault(weight, []).append(f"^{name.replace('.', '[.]')}$")
        text = msgspec.json.encode({str(weight): ranks[weight] for weight in sorted(ranks, reverse=True)}).decode()
        why = f"kubectl -n kube-system create configmap {PRIORITIES_CONFIG_MAP} --from-literal=priorities='{text}'"
        draft.find(f"ConfigMap {PRIORITIES_CONFIG_MAP}", "", "no-counterpart", why=f"for weights, run {why}")
    if shared.startup:
        put("autoscaler.scaleUp.startupTaints", [*dict.fromkeys([*STARTUP_TAINTS, *shared.startup])], "startupTaints")
    put("autoscaler.maxNodesInCreation", 0, "Karpenter", why="no limit on nodes in creation")
    put("autoscaler.consolidation.enabled", True, "disruption", why="also of nodes that expire")
    for key, value in (
        ("minSavingRatio", 0),
        ("minNodeAge", "0s"),
        ("podRest", "0s"),
        ("drift", True),
        ("allowSpot", shared.spot),
    ):
        if key != "minSavingRatio" or "Balanced" not in shared.policies:
            put(f"autoscaler.consolidation.{key}", value, "Karpenter", why="what Karpenter does")


def _overlays(draft: Draft, overlays: Sequence[Manifest], entries: Sequence[tuple[Mapping[str, Any], str]]) -> None:
    """A price becomes that of the groups whose labels it selects, a percentage a discount. The heaviest overlay counts."""
    decoded: list[PriceOverlay] = []
    for each in overlays:
        title = f"NodeOverlay {each.name}"
        try:
            found = decode_overlay(each.raw)
        except ValueError as err:
            draft.find(title, "", "refused", why=str(err))
            continue
        if found is None:
            draft.find(title, "", "no-counterpart", why="it changes no price; amounts of new nodes are in a group's template")
        else:
            decoded.append(found)
    for overlay in sorted(decoded, key=lambda each: (-each.weight, each.name)):
        _overlay(draft, overlay, entries)


def _overlay(draft: Draft, overlay: PriceOverlay, entries: Sequence[tuple[Mapping[str, Any], str]]) -> None:
    title, labels = f"NodeOverlay {overlay.name}", {each.key: each.values[0] for each in overlay.requirements if each.values}
    simple = all(each.operator == "In" and len(each.values) == 1 for each in overlay.requirements)
    if overlay.price is not None and simple:
        chosen: list[Any] = [each for each, _ in entries if labels.items() <= each["template"]["metadata"]["labels"].items()]
        for entry in chosen:
            entry.setdefault("price", decimal_text(overlay.price))
        names = ", ".join(entry["name"] for entry in chosen)
        verdict: Any = "taken" if chosen else "no-counterpart"
        draft.find(title, decimal_text(overlay.price), verdict, f"{_GROUPS}[].price", names or "no group has its labels")
    elif simple and labels and overlay.added == 0 and -_PERCENT_MICROS <= overlay.percent <= 0:
        entry = {"nodeLabels": labels, "factor": 1 + overlay.percent / _PERCENT_MICROS}
        draft.add("autoscaler.prices.discounts", entry, title, f"{overlay.percent / 10**6:g}%")
    else:
        why = "prices are a group's own, a table, or discounts by labels: no surcharge, and no selection but by one value"
        draft.find(title, "", "no-counterpart", "autoscaler.prices", why)
