"""`slackwater simulate scale-down`: finds nodes that could be removed together, and where their pods would go."""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from slackwater.cli.commands.output import columns
from slackwater.cli.commands.simulate_common import Planned, add_group_label, add_options, not_judged, report

if TYPE_CHECKING:
    from slackwater.app.offline import Cluster
    from slackwater.app.settings import Settings

_DESCRIPTION: Final = """\
Finds nodes that could all be removed together now: each pod that has to move
gets a place on a node that stays. Groups and their minima come from the
configuration; a group's nodes are those whose label slackwater.dev/node-group
names it. Without groups in the configuration those that labels name are used,
and without such labels all nodes. Timers, cool-downs and limits on what is
removed at the same time are not applied. Exit code 0: planned; 2: the file or
the configuration cannot be read.
"""
_EXAMPLES: Final = """\
examples:
  slackwater simulate scale-down           of the cluster that kubectl speaks to
  kubectl get nodes,pods,namespaces,poddisruptionbudgets,pvc,pv,storageclasses,\\
csinodes -A -o json > cluster.json
  slackwater simulate scale-down --cluster cluster.json --config slackwater.yaml
  ... -o json                              where would each pod go?
"""
#: How many nodes the table names for each reason.
_MOST_NODES: Final = 3


def add_scale_down(what: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = what.add_parser(
        "scale-down",
        help="which nodes could go together, and why the others stay",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser, config=": groups, thresholds, rules")
    add_group_label(parser)
    parser.set_defaults(run=run_scale_down)


def run_scale_down(args: argparse.Namespace) -> int:
    from slackwater.app.offline.scaledown import scale_down_answer

    def plan(cluster: "Cluster", settings: "Settings") -> Planned:
        return [scale_down_answer(cluster, settings, accounting=args.accounting)]

    return report(args, plan, lambda found: _table(*found), "scale-down")


def _table(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [(found["node"], str(len(found["destinations"])), found["removalScore"]) for found in answer["removable"]]
    if rows:
        yield from columns([("NODE", "PODS", "REMOVAL SCORE"), *rows])
    total = len(answer["removable"]) + len(answer["kept"])
    yield f"{len(rows) or 'none'} of {total} nodes can go together"
    if answer["kept"]:
        yield ""
        yield from columns([("STAY", "REASON", "FOR EXAMPLE"), *_why(answer)])
    yield from not_judged([answer])


def _why(answer: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The table rows about the nodes that stay: number, reason and some of the nodes. The most frequent reason comes first."""
    counts = Counter(kept["reason"] for kept in answer["kept"])
    for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        found = [kept for kept in answer["kept"] if kept["reason"] == reason][:_MOST_NODES]
        yield str(count), reason, "; ".join(f"{kept['node']}: {_detail(kept)}" for kept in found)


def _detail(kept: Mapping[str, Any]) -> str:
    blocked_by = kept["blockedBy"]
    return kept["detail"] if blocked_by is None else f"{blocked_by}: {kept['detail']}"
