"""Judges whether NetworkPolicies let a connection to a Pod through: pure functions over their JSON.

Only connections between Pods of one namespace are judged, by labels and port. A rule with an `ipBlock`, a named port, or a
namespace selector that uses other labels than the name cannot be judged. It is assumed to let the connection through, and
`sure` is False.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from slackwater.adapters.kube.pod_constraints import selector_of
from slackwater.adapters.kube.structs import SelectorWire
from slackwater.model.selectors import selects

Json = Mapping[str, Any]
Labels = Mapping[str, str]
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether NetworkPolicies let a connection through. `policies` are the names of those that select the target Pod.

    Without such a policy everything is let through. `sure`: the rules could be judged.
    """

    admitted: bool
    sure: bool
    policies: tuple[str, ...]


def judge(policies: Iterable[Json], *, source: Labels, target: Labels, namespace: str, port: int) -> Judgement:
    """Judges a TCP connection from a Pod with the labels `source` to `port` of a Pod with the labels `target`.

    Both Pods are in `namespace`.
    """
    mine = [each for each in policies if _is_ingress(each) and _selects(each["spec"].get("podSelector"), target)]
    names = tuple(str(each["metadata"]["name"]) for each in mine)
    if not mine:
        return Judgement(admitted=True, sure=True, policies=())
    rules = [rule for each in mine for rule in each["spec"].get("ingress") or ()]
    verdicts = [_rule(rule, source, namespace, port) for rule in rules]
    return Judgement(
        admitted=any(verdict is not False for verdict in verdicts),
        sure=True in verdicts or None not in verdicts,
        policies=names,
    )


def _is_ingress(policy: Json) -> bool:
    return "Ingress" in (policy["spec"].get("policyTypes") or ["Ingress"])


def _rule(rule: Json, source: Labels, namespace: str, port: int) -> bool | None:
    """True if the rule lets the connection through; None if that cannot be judged."""
    by_port = _any([_port(each, port) for each in rule.get("ports") or ()])
    by_peer = _any([_peer(each, source, namespace) for each in rule.get("from") or ()])
    if by_port is False or by_peer is False:
        return False
    return None if by_port is None or by_peer is None else True


def _any(verdicts: list[bool | None]) -> bool | None:
    """Combines the verdicts on a rule's ports or peers: one that matches is enough. An empty list means all ports or peers."""
    if not verdicts or True in verdicts:
        return True
    return None if None in verdicts else False


def _port(each: Json, port: int) -> bool | None:
    first = each.get("port")
    if each.get("protocol", "TCP") != "TCP":
        return False
    if first is None:
        return True
    if isinstance(first, str):
        return None
    return bool(first <= port <= each.get("endPort", first))


def _peer(each: Json, source: Labels, namespace: str) -> bool | None:
    if "ipBlock" in each:
        return None
    if "podSelector" in each and not _selects(each["podSelector"], source):
        return False
    chosen = each.get("namespaceSelector")
    if chosen is not None and _asks_more(chosen):
        return None
    return chosen is None or _selects(chosen, {_NAMESPACE_NAME: namespace})


def _asks_more(selector: Json) -> bool:
    """True if the namespace selector uses labels other than the namespace's name."""
    keys = {*(selector.get("matchLabels") or {}), *(each["key"] for each in selector.get("matchExpressions") or ())}
    return bool(keys - {_NAMESPACE_NAME})


def _selects(selector: Json | None, labels: Labels) -> bool:
    """True if the label selector selects these labels. An empty or absent selector selects everything."""
    return selects(selector_of(msgspec.convert(selector or {}, SelectorWire)), labels)
