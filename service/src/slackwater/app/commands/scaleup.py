"""`slackwater simulate scale-up`: which nodes would be added for the pending pods of a file."""

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from slackwater.app.commands.columns import columns
from slackwater.app.commands.failure import CommandFailed
from slackwater.app.commands.sources import name_of, settings_from

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
    parser.add_argument("--cluster", metavar="F", required=True, help="JSON or YAML; - for stdin")
    parser.add_argument("--config", metavar="F", help="Slackwater's configuration file: groups, limits, expanders")
    parser.add_argument(
        "--accounting", action="store_true", help="add our own rules: missing requests, system amounts, Reserved"
    )
    parser.add_argument("-o", dest="output", choices=("table", "json"), default="table", help="default: table")
    parser.set_defaults(run=run_scale_up)


def run_scale_up(args: argparse.Namespace) -> int:
    from slackwater.app.offline import ClusterError
    from slackwater.app.offline.reading import load_cluster
    from slackwater.app.offline.scaleup import scale_up_answer

    if args.cluster == args.config == "-":
        raise CommandFailed(["--cluster and --config: got - twice, want at most one of them from stdin"])
    settings = settings_from(args.config)
    try:
        cluster = load_cluster(args.cluster)
        gc.freeze()  # as in the service: nothing of the cluster will ever be garbage
        answer = scale_up_answer(cluster, settings, accounting=args.accounting)
    except ClusterError as err:
        raise CommandFailed([f"{name_of(args.cluster)}: {err}"]) from err
    for line in _json(answer) if args.output == "json" else _table(answer):
        sys.stdout.write(line + "\n")
    return 0


def _json(answer: Mapping[str, Any]) -> Iterator[str]:
    import msgspec

    yield msgspec.json.encode(answer).decode()


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
    for note in answer.get("skipped", ()):
        yield f"not judged: {note}"


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
