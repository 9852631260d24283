"""`slackwater cleanup`: removes everything that Slackwater has written in a cluster."""

import argparse
from collections import Counter
from typing import TYPE_CHECKING

from slackwater.cli.commands.cluster import add_cluster, with_cluster
from slackwater.cli.commands.ops_client import DEFAULT_URL, listens
from slackwater.cli.commands.output import ANSWERED_NO, CommandFailed, add_output, as_json, show

if TYPE_CHECKING:
    from slackwater.adapters.kube.client import KubeClient
    from slackwater.app.cleanup import Cleanup


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "cleanup",
        help="take away everything that Slackwater has written in the cluster",
        description="Takes away scheduling gates, nominations, annotations, taints, cordons,\n"
        "conditions, Events, ConfigMaps and Leases of Slackwater, and its entries in\n"
        "managedFields. Pods that are placed keep their node and their size; nodes and\nmachines stay. "
        "Stop the service first: it would write again.\n"
        "Cleanup refuses while a replica seems to run: a Pod, a Lease, an answer on this\nhost, or a write within a minute.",
        epilog="example:\n  slackwater cleanup --dry-run      # what would be done?",
    )
    parser.add_argument("--dry-run", action="store_true", help="change nothing, print what would be done")
    parser.add_argument("--force", action="store_true", help="also while a replica or Cluster Autoscaler seems to run")
    add_cluster(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from slackwater.app.cleanup import CleanedObject, Cleaner, StillRuns

    if not args.force and listens():
        raise CommandFailed(
            [f"something answers at {DEFAULT_URL}, where the service listens; stop it, or if it is none, use --force"],
            code=ANSWERED_NO,
        )

    def report(change: CleanedObject) -> None:
        if not as_json(args):
            print(f"{change.kind} {change.name}: {'; '.join(change.words)}", flush=True)

    async def clean(client: "KubeClient") -> "Cleanup":
        return await Cleaner(client, now=datetime.now(UTC), dry_run=args.dry_run, report=report).run(force=args.force)

    try:
        done = with_cluster(args, clean)
    except StillRuns as found:
        raise CommandFailed([str(found)], code=ANSWERED_NO) from found
    document = {
        "dryRun": args.dry_run,
        "changes": [{"kind": each.kind, "name": each.name, "steps": list(each.words)} for each in done.changes],
        "notInstalled": done.absent,
        "left": done.left,
        "keysOfPeople": done.user_keys,
    }
    show(args, document, lambda: _summary(done, dry_run=args.dry_run))
    if done.left:
        raise CommandFailed(
            [f"{each}: still has something of Slackwater; does it run?" for each in done.left], code=ANSWERED_NO
        )
    return 0


def _summary(done: "Cleanup", *, dry_run: bool) -> list[str]:
    counts = Counter(change.kind for change in done.changes)
    objects = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing of Slackwater"
    lines = [f"{'would clean' if dry_run else 'cleaned'}: {objects}"]
    if done.user_keys:
        named = ", ".join(sorted({key for keys in done.user_keys.values() for key in keys}))
        lines.append(f"left alone, since people wrote them: {named} on {len(done.user_keys)} objects")
    return lines
