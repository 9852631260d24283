"""`slackwater simulate`: answers what would happen to the pods and nodes of a cluster, which it only reads."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

from slackwater.cli.commands.output import columns
from slackwater.cli.commands.simulate_common import (
    NOTHING_PENDING,
    Answers,
    add_group_label,
    add_options,
    merged,
    notes,
    report,
)
from slackwater.model.texts import count_text

if TYPE_CHECKING:
    from slackwater.ports.protocols import Question

_PLACEMENT: Final = """\
Judges every pod that has no node and has not ended, whatever its scheduler, by
kube-scheduler's own rules. A rule that needs a kind of object of which the
file has none is skipped, and the answer says so. Pods with resource claims
(DRA) need resourceslices, deviceclasses, resourceclaims,
resourceclaimtemplates and devicetaintrules in the file. Exit code 0: judged;
2: the file cannot be read.
"""
_EXAMPLES: Final = """\
examples:
  slackwater simulate placement            of the cluster that kubectl speaks to
  slackwater simulate placement --live     of the one that the service sees
  kubectl get nodes,pods,namespaces,pvc,pv,storageclasses,csinodes,csidrivers,\\
csistoragecapacities,volumeattachments -A -o json > cluster.json
  slackwater simulate placement --cluster cluster.json
  ... --sequential                         in turn: where would each go?
  ... --suppose more.yaml                  and with these changes?
  ... -o json                              one line of JSON for each pod
"""
#: How many reasons the table names in one line.
_MOST_REASONS: Final = 3


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "simulate",
        help="say from a file where pods could go, which nodes they need, and which nodes could go",
        description="What-if on the kubeconfig's cluster, which is only read; on a file as `kubectl get nodes,pods,... -A "
        "-o json` writes it; or with --live on a running service. --suppose says how it is to differ: other nodes, pods, "
        "groups, settings.",
    )
    what = parser.add_subparsers(prog="slackwater simulate", metavar="WHAT", required=True)
    placement = what.add_parser(
        "placement",
        help="where could each pending pod go, and why not elsewhere",
        description=_PLACEMENT,
        epilog=_EXAMPLES,
    )
    add_options(placement, config=", for --accounting")
    placement.add_argument(
        "--sequential",
        action="store_true",
        help="put each pod on the first feasible node, in the order of the file, before the next is judged",
    )
    placement.set_defaults(run=_placement)
    scale_up = what.add_parser(
        "scale-up",
        help="which nodes would be added for the pending pods, and why none helps the others",
        description=_SCALE_UP,
        epilog=_SCALE_UP_EXAMPLES,
    )
    add_options(scale_up, config=": groups, limits, expanders")
    add_group_label(scale_up)
    scale_up.set_defaults(run=_planned("scale-up", _scale_up_table))
    scale_down = what.add_parser(
        "scale-down",
        help="which nodes could go together, and why the others stay",
        description=_SCALE_DOWN,
        epilog=_SCALE_DOWN_EXAMPLES,
    )
    add_options(scale_down, config=": groups, thresholds, rules")
    add_group_label(scale_down)
    scale_down.set_defaults(run=_planned("scale-down", _scale_down_table))
    consolidate = what.add_parser(
        "consolidate",
        help="which nodes would be replaced by cheaper ones, what that saves, and why the others stay",
        description=_CONSOLIDATE,
        epilog=_CONSOLIDATE_EXAMPLES,
    )
    add_options(consolidate, config=": groups, prices, rules")
    add_group_label(consolidate)
    consolidate.set_defaults(run=_planned("consolidate", _consolidate_table))


def _placement(args: argparse.Namespace) -> int:
    table = _sequential_table if args.sequential else _table
    return report(args, "placement", lambda each: each.placement(sequential=args.sequential), table)


def _planned(question: "Question", table: Callable[[Mapping[str, Any]], Iterator[str]]) -> Callable[[argparse.Namespace], int]:
    ask = methodcaller(question.replace("-", "_"))
    return lambda args: report(args, question, lambda each: [ask(each)], lambda found: table(*found))


def _sequential_table(lines: Answers) -> Iterator[str]:
    found = list(lines)
    rows = [(line["pod"], line["node"] or (f"- ({line['untried']})" if "untried" in line else "-")) for line in found]
    if not rows:
        yield NOTHING_PENDING
        return
    yield from columns([("POD", "NODE"), *merged(rows)])
    placed = sum(line["node"] is not None for line in found)
    yield f"{placed} of {len(rows)} pods placed"
    yield from notes(found)


def _table(lines: Answers) -> Iterator[str]:
    found = list(lines)
    rows = [(line["pod"], _count(line), _why_not(line)) for line in found]
    if not rows:
        yield NOTHING_PENDING
        return
    yield from columns([("POD", "NODES", "WHY NOT THE OTHERS"), *merged(rows)])
    feasible = sum(bool(line["feasible"]) for line in found)
    yield f"{feasible} of {len(found)} pods fit somewhere"
    yield from notes(found)


def _count(line: Mapping[str, Any]) -> str:
    feasible = len(line["feasible"])
    return f"{feasible}/{feasible + len(line['rejected'])}"


def _why_not(line: Mapping[str, Any]) -> str:
    """The most frequent reasons of the nodes that reject the pod, each with its number of nodes, as in kube-scheduler's
    messages."""
    counts = Counter(reason for verdict in line["rejected"].values() for reason in verdict["reasons"])
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{count} {reason}" for reason, count in ordered[:_MOST_REASONS]]
    return ", ".join([*shown, "..."] if len(ordered) > _MOST_REASONS else shown)


_SCALE_UP: Final = """\
Plans nodes for every pod that has no node and has not ended, whatever its
scheduler. Pods that fit existing nodes need none. Groups come from the
configuration, else from the nodes' labels: slackwater.dev/node-group, or those
of EKS, GKE, AKS, Karpenter, DigitalOcean and kops. A new node looks like most
nodes of its group, or like the template of the configuration. The answer is
the whole plan, before any limit on nodes in creation. Exit code 0: planned;
2: the file or the configuration cannot be read, or has no group.
"""
_SCALE_UP_EXAMPLES: Final = """\
examples:
  slackwater simulate scale-up             of the cluster that kubectl speaks to
  kubectl get nodes,pods,daemonsets,namespaces,pvc,pv,storageclasses,csinodes,\\
configmaps -A -o json > cluster.json
  slackwater simulate scale-up --cluster cluster.json --config slackwater.yaml
  ... -o json                              which pods go to which new nodes?
"""


def _scale_up_table(answer: Mapping[str, Any]) -> Iterator[str]:
    groups = answer["groups"]
    helped, new = sum(len(group["pods"]) for group in groups), sum(group["newNodes"] for group in groups)
    fits, unhelpable = len(answer["schedulable"]), answer["unhelpable"]
    if groups:
        rows = [("GROUP", "NEW NODES", "PODS")]
        rows += [(group["name"], str(group["newNodes"]), str(len(group["pods"]))) for group in groups]
        if any("price" in group for group in groups):
            money = [("PRICE/HOUR", "COST/HOUR", "BASIS"), *map(_money, groups)]
            yield from columns([(*row, *cells) for row, cells in zip(rows, money, strict=True)], right=(1, 2, 3, 4))
        else:
            yield from columns(rows, right=(1, 2))
        for name, count in (each for group in groups for each in group.get("variants", {}).items()):
            yield f"of these {count} {'is' if count == 1 else 'are'} {name}"
    else:
        yield "no node group: no provider has reported one, and neither labels nor the configuration name any"
    yield from _cost(answer)
    if helped + fits + len(unhelpable) + len(answer.get("notCounted", ())) + len(answer.get("notLookedAt", ())):
        yield f"nodes: {new} new; pods: {helped} get a new node, {fits} fit already, {len(unhelpable)} cannot be helped"
    elif not _pods_unknown(answer):
        yield NOTHING_PENDING
    if unhelpable:
        yield ""
        yield from columns([("CANNOT BE HELPED", "GROUP", "WHY NOT"), *merged(_why_no_group(unhelpable))])
    # Without the figures of one pod, equal reasons are counted together.
    for why, count in sorted(Counter(each["reason"].partition(":")[0] for each in answer.get("notCounted", ())).items()):
        yield f"not counted: {count_text(count, 'pod')}: {why}"
    if "notLookedAt" in answer:
        yield f"not looked at: {count_text(len(answer['notLookedAt']), 'pod')} beyond autoscaler.scaleUp.maxPods"
    for each in answer.get("failures", ()):
        yield f"left out of the plan: {each['about']}: {each['error']}"
    yield from _planning(answer)
    yield from notes([answer])


def _planning(answer: Mapping[str, Any]) -> Iterator[str]:
    """A line that says which limit ended the plan, if one did."""
    planning = answer.get("planning", {})  # a running service may be older
    if planning.get("cutBy") is not None:
        yield f"cut off by the limit {planning['cutBy']} after {planning['steps']} steps: with more, the plan may be larger"


def _money(group: Mapping[str, Any]) -> tuple[str, str, str]:
    """The cells about what a group's new nodes cost: one, all, and where the price comes from."""
    price = group.get("price")
    return _amount(price), _amount(group.get("cost")), "" if price is None else price["basis"]


def _cost(answer: Mapping[str, Any]) -> Iterator[str]:
    if "cost" in answer:
        yield f"cost of the new nodes: {_amount(answer['cost'])} an hour ({answer['cost']['basis']})"
    if "packing" in answer:
        yield _packing(answer["packing"])


def _packing(packing: Mapping[str, Any]) -> str:
    bound = "no bound is known"
    if packing["bound"] is not None:
        bound = f"no plan costs less than {packing['bound']}, and the plan costs {packing['gapPercent']} % more than that"
    how = "" if packing["solver"] else "; packed greedily, without the extra slackwater[solver]"
    cut = "; a limit ended the search for a cheaper plan" if packing["cut"] else ""
    return f"packed at the lowest price: {packing['cost']} an hour; {bound}{how}{cut}"


def _amount(price: Mapping[str, str] | None) -> str:
    return "" if price is None else f"{price['perHour']} {price['currency']}"


def _pods_unknown(answer: Mapping[str, Any]) -> bool:
    return any(note.startswith("pods, so that ") for note in answer.get("skipped", ()))


def _why_no_group(unhelpable: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """The table rows about pods that no group helps: pod, group, and why a new node of that group would not take the pod."""
    for entry in unhelpable:
        if "sameAs" in entry:
            yield entry["pod"], "", f"as {entry['sameAs']}"
        for group, why in entry["groups"].items():
            shown = why["reasons"][:_MOST_REASONS]
            yield entry["pod"], group, ", ".join([*shown, "..."] if len(why["reasons"]) > _MOST_REASONS else shown)


_SCALE_DOWN: Final = """\
Finds nodes that could all be removed together now: each pod that has to move
gets a place on a node that stays. Groups and their minima come from the
configuration; a group's nodes are those whose label names it:
slackwater.dev/node-group, or that of a cloud (--group-label). Without groups in
the configuration those that labels name are used, and without such labels all
nodes. Timers, cool-downs and limits on what is
removed at the same time are not applied. Exit code 0: planned; 2: the file or
the configuration cannot be read.
"""
_SCALE_DOWN_EXAMPLES: Final = """\
examples:
  slackwater simulate scale-down           of the cluster that kubectl speaks to
  kubectl get nodes,pods,namespaces,poddisruptionbudgets,pvc,pv,storageclasses,\\
csinodes -A -o json > cluster.json
  slackwater simulate scale-down --cluster cluster.json --config slackwater.yaml
  ... -o json                              where would each pod go?
"""
#: How many nodes the table names for each reason.
_MOST_NODES: Final = 3


def _scale_down_table(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [(found["node"], str(len(found["destinations"])), found["removalScore"]) for found in answer["removable"]]
    if rows:
        yield from columns([("NODE", "PODS", "REMOVAL SCORE"), *rows])
    total = len(answer["removable"]) + len(answer["kept"])
    supposing = ", if no pod runs on them" if rows and _pods_unknown(answer) else ""
    yield f"{len(rows) or 'none'} of {total} nodes can go together{supposing}"
    yield from _what_stays(answer)


def _what_stays(answer: Mapping[str, Any]) -> Iterator[str]:
    """The end of a table of nodes that go: those that stay and why, how far planning came, and notes."""
    if answer["kept"]:
        yield ""
        yield from columns([("STAY", "REASON", "FOR EXAMPLE"), *_why(answer)])
    yield from _planning(answer)
    yield from notes([answer])


def _why(answer: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The table rows about the nodes that stay: number, reason and some of the nodes. The most frequent reason comes first."""
    counts = Counter(kept["reason"] for kept in answer["kept"])
    for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        found = [kept for kept in answer["kept"] if kept["reason"] == reason][:_MOST_NODES]
        yield str(count), reason, "; ".join(f"{kept['node']}: {_detail(kept)}" for kept in found)


def _detail(kept: Mapping[str, Any]) -> str:
    blocked_by = kept["blockedBy"]
    return kept["detail"] if blocked_by is None else f"{blocked_by}: {kept['detail']}"


_CONSOLIDATE: Final = """\
Finds sets of nodes that cheaper sets could replace now: pods go to room on
nodes that stay and to new nodes, in small moves, each of which saves enough for
the pods that it evicts (autoscaler.consolidation, which counts as enabled
here). Groups come from the configuration or from labels, as in scale-up.
Prices come from the configuration; without any, a formula of CPU, memory and
GPUs counts. No pod counts as moved a short while ago. Exit code 0: planned; 2:
the file or the configuration cannot be read.
"""
_CONSOLIDATE_EXAMPLES: Final = """\
examples:
  slackwater simulate consolidate          of the cluster that kubectl speaks to
  kubectl get nodes,pods,namespaces,daemonsets,poddisruptionbudgets,pvc,pv,\\
storageclasses,csinodes -A -o json > cluster.json
  slackwater simulate consolidate --cluster cluster.json --config config.yaml
  ... -o json                              where would each pod go?
"""
#: How many moves the table has, the first ones.
_MOST_MOVES: Final = 20


def _consolidate_table(answer: Mapping[str, Any]) -> Iterator[str]:
    moves = answer["moves"]
    if moves:
        heads = ("MOVE", "NODES GO", "NODES COME", "SAVED/HOUR", "EVICTIONS", "SAVING/DISRUPTION")
        yield from columns(
            [heads, *(_move(number, move) for number, move in enumerate(moves[:_MOST_MOVES], 1))], right=(0, 3, 4, 5)
        )
        if len(moves) > _MOST_MOVES:
            yield f"and {len(moves) - _MOST_MOVES} more moves (-o json has all)"
    gone, come = sum(len(move["leaving"]) for move in moves), sum(sum(move["coming"].values()) for move in moves)
    yield f"{count_text(gone, 'node')} would go and {come} come, with {count_text(answer['evictions'], 'eviction')}"
    if answer["cost"] is not None:
        bound = "" if answer["bound"] is None else f"; new nodes for all pods cost at least {answer['bound']}"
        basis = f" ({answer['cost']['basis']})"
        yield f"cost of the nodes: {_amount(answer['cost'])} an hour{basis}, after it {_amount(answer['costAfter'])}{bound}"
    yield from _what_stays(answer)


def _move(number: int, move: Mapping[str, Any]) -> tuple[str, ...]:
    leaving = [*move["leaving"][:_MOST_NODES], *(["..."] if len(move["leaving"]) > _MOST_NODES else [])]
    coming = ", ".join(f"{count} {group}" for group, count in move["coming"].items()) or "-"
    return str(number), ", ".join(leaving), coming, move["saved"], str(move["evictions"]), f"{move['ratio']:.2f}"
