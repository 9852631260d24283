"""`slackwater simulate`: answers what would happen to the pods and nodes of a cluster, which it only reads. This module has
`simulate placement`."""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from slackwater.cli.commands.output import columns
from slackwater.cli.commands.scaledown import add_scale_down
from slackwater.cli.commands.scaleup import add_scale_up
from slackwater.cli.commands.simulate_common import NOTHING_PENDING, Answers, Planned, add_options, merged, not_judged, report

if TYPE_CHECKING:
    from slackwater.app.offline import Cluster
    from slackwater.app.settings import Settings

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
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(placement, config=", for --accounting")
    placement.add_argument(
        "--sequential",
        action="store_true",
        help="put each pod on the first feasible node, in the order of the file, before the next is judged",
    )
    placement.set_defaults(run=run_placement)
    add_scale_up(what)
    add_scale_down(what)


def run_placement(args: argparse.Namespace) -> int:
    from slackwater.app.offline import placement_lines
    from slackwater.app.policies import policy_of

    def lines(cluster: "Cluster", settings: "Settings") -> Planned:
        policy = policy_of(settings)
        return placement_lines(
            cluster,
            sequential=args.sequential,
            accounting=args.accounting,
            policy=policy.nodes,
            missing_requests=policy.missing_requests,
        )

    return report(args, lines, _sequential_table if args.sequential else _table, "placement")


def _sequential_table(lines: Answers) -> Iterator[str]:
    found = list(lines)
    rows = [(line["pod"], line["node"] or (f"- ({line['untried']})" if "untried" in line else "-")) for line in found]
    if not rows:
        yield NOTHING_PENDING
        return
    yield from columns([("POD", "NODE"), *merged(rows)])
    placed = sum(line["node"] is not None for line in found)
    yield f"{placed} of {len(rows)} pods placed"
    yield from not_judged(found)


def _table(lines: Answers) -> Iterator[str]:
    found = list(lines)
    rows = [(line["pod"], _count(line), _why_not(line)) for line in found]
    if not rows:
        yield NOTHING_PENDING
        return
    yield from columns([("POD", "NODES", "WHY NOT THE OTHERS"), *merged(rows)])
    feasible = sum(bool(line["feasible"]) for line in found)
    yield f"{feasible} of {len(found)} pods fit somewhere"
    yield from not_judged(found)


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
