"""`slackwater simulate scale-up`: plans which nodes would be added for the pending pods."""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from slackwater.cli.commands.output import columns
from slackwater.cli.commands.simulate_common import (
    NOTHING_PENDING,
    Planned,
    add_group_label,
    add_options,
    merged,
    not_judged,
    report,
)

if TYPE_CHECKING:
    from slackwater.app.offline import Cluster
    from slackwater.app.settings import Settings

_DESCRIPTION: Final = """\
Plans nodes for every pod that has no node and has not ended, whatever its
scheduler. Pods that fit existing nodes need none. Groups come from the
configuration, else from the nodes' labels: slackwater.dev/node-group, or those
of EKS, GKE, AKS and Karpenter. A new node looks like the first node of its
group, or like the template of the configuration. The answer is the whole plan,
before any limit on nodes in creation. Exit code 0: planned; 2: the file or the
configuration cannot be read, or has no group.
"""
_EXAMPLES: Final = """\
examples:
  slackwater simulate scale-up             of the cluster that kubectl speaks to
  kubectl get nodes,pods,daemonsets,namespaces,pvc,pv,storageclasses,csinodes,\\
configmaps -A -o json > cluster.json
  slackwater simulate scale-up --cluster cluster.json --config slackwater.yaml
  ... -o json                              which pods go to which new nodes?
"""
#: How many reasons the table names in one line.
_MOST_REASONS: Final = 3


def add_scale_up(what: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = what.add_parser(
        "scale-up",
        help="which nodes would be added for the pending pods, and why none helps the others",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser, config=": groups, limits, expanders")
    add_group_label(parser)
    parser.set_defaults(run=run_scale_up)


def run_scale_up(args: argparse.Namespace) -> int:
    from slackwater.app.offline.scaleup import scale_up_answer

    def plan(cluster: "Cluster", settings: "Settings") -> Planned:
        return [scale_up_answer(cluster, settings, accounting=args.accounting)]

    return report(args, plan, lambda found: _table(*found), "scale-up")


def _table(answer: Mapping[str, Any]) -> Iterator[str]:
    groups = answer["groups"]
    helped, new = sum(len(group["pods"]) for group in groups), sum(group["newNodes"] for group in groups)
    fits, unhelpable = len(answer["schedulable"]), answer["unhelpable"]
    if groups:
        rows = [(group["name"], str(group["newNodes"]), str(len(group["pods"]))) for group in groups]
        yield from columns([("GROUP", "NEW NODES", "PODS"), *rows], right=(1, 2))
    else:
        yield "no node group: no provider has reported one, and neither labels nor the configuration name any"
    if helped + fits + len(unhelpable):
        yield f"nodes: {new} new; pods: {helped} get a new node, {fits} fit already, {len(unhelpable)} cannot be helped"
    else:
        yield NOTHING_PENDING
    if unhelpable:
        yield ""
        yield from columns([("CANNOT BE HELPED", "GROUP", "WHY NOT"), *merged(_why_not(unhelpable))])
    for why, count in sorted(Counter(_in_short(each["reason"]) for each in answer.get("notCounted", ())).items()):
        yield f"not counted: {count} pods: {why}"
    if "notLookedAt" in answer:
        yield f"not looked at: {len(answer['notLookedAt'])} pods beyond autoscaler.scaleUp.maxPods"
    for each in answer.get("failures", ()):
        yield f"left out of the plan: {each['about']}: {each['error']}"
    yield from not_judged([answer])


def _in_short(reason: str) -> str:
    """A reason without the figures of one pod, so that equal reasons are counted together."""
    return reason.partition(":")[0]


def _why_not(unhelpable: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """The table rows about pods that no group helps: pod, group, and why a new node of that group would not take the pod."""
    for entry in unhelpable:
        if "sameAs" in entry:
            yield entry["pod"], "", f"as {entry['sameAs']}"
        for group, why in entry["groups"].items():
            shown = why["reasons"][:_MOST_REASONS]
            yield entry["pod"], group, ", ".join([*shown, "..."] if len(why["reasons"]) > _MOST_REASONS else shown)
