"""`slackwater simulate scale-up`: which nodes would be added for the pending pods of a file."""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from slackwater.cli.commands.output import columns
from slackwater.cli.commands.simulating import Answers, add_options, not_judged, tell

if TYPE_CHECKING:
    from slackwater.app.offline import Cluster
    from slackwater.app.settings import Settings

_DESCRIPTION: Final = """\
Plans nodes for every pod that has no node and has not ended, whatever its scheduler. Pods that fit nodes of the file need
none. Groups come from the configuration; a group's nodes are those whose label slackwater.dev/node-group names it, and the
first of them tells what a new one looks like, else the template of the configuration does. Without groups in the
configuration those that labels name are planned with. The answer is the whole plan, before any limit on nodes in creation.
Exit code 0: planned; 2: the file or the configuration cannot be read.
"""
_EXAMPLES: Final = """\
examples:
  kubectl get nodes,pods,daemonsets,namespaces,pvc,pv,storageclasses,csinodes,configmaps -A -o json > cluster.json
  slackwater simulate scale-up --cluster cluster.json --config slackwater.yaml           how many nodes of which group?
  slackwater simulate scale-up --cluster cluster.json --config slackwater.yaml -o json   and for which pods?
"""
#: How many kinds of trouble the table names for each group.
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
    parser.set_defaults(run=run_scale_up)


def run_scale_up(args: argparse.Namespace) -> int:
    from slackwater.app.offline.scaleup import scale_up_answer

    def plan(cluster: "Cluster", settings: "Settings") -> Answers:
        return [scale_up_answer(cluster, settings, accounting=args.accounting)]

    return tell(args, plan, lambda found: _table(*found), "scale-up")


def _table(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [(group["name"], str(group["newNodes"]), str(len(group["pods"]))) for group in answer["groups"]]
    yield from columns([("GROUP", "NEW NODES", "PODS"), *rows])
    helped = sum(len(group["pods"]) for group in answer["groups"])
    new = sum(group["newNodes"] for group in answer["groups"])
    yield f"{helped} pods get {new} new nodes, {len(answer['schedulable'])} fit already, {len(answer['unhelpable'])} get none"
    if answer["unhelpable"]:
        yield ""
        yield from columns([("GROUP", "WHY NOT"), *_why_not(answer["unhelpable"])])
    for why, count in sorted(Counter(_in_short(each["reason"]) for each in answer.get("notCounted", ())).items()):
        yield f"not counted: {count} pods: {why}"
    if "notLookedAt" in answer:
        yield f"not looked at: {len(answer['notLookedAt'])} pods beyond autoscaler.scaleUp.maxPods"
    yield from not_judged([answer])


def _in_short(reason: str) -> str:
    """Without the figures of one pod, so that like reasons are counted together."""
    return reason.partition(":")[0]


def _why_not(unhelpable: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The most frequent reasons of each group, with the number of pods."""
    counts: dict[str, Counter[str]] = {}
    for entry in unhelpable:
        for group, why in entry["groups"].items():
            counts.setdefault(group, Counter()).update(why["reasons"])
    for group, reasons in counts.items():
        ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        shown = [f"{count} {reason}" for reason, count in ordered[:_MOST_REASONS]]
        yield group, ", ".join([*shown, "..."] if len(ordered) > _MOST_REASONS else shown)
