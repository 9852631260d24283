"""`slackwater pause` and `slackwater resume`: stop activities of the service, such as scale-down, and let them continue."""

import argparse
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from slackwater.cli.commands.cluster import add_cluster, with_cluster
from slackwater.cli.commands.output import CommandFailed, add_output, add_watch, columns, show, watched
from slackwater.model.pauses import ACTIVITIES, ALL

if TYPE_CHECKING:
    from slackwater.adapters.kube.client import KubeClient

_MEANINGS: Final = {
    "scale-down": "no node is removed; removals under way are rolled back",
    "scale-up": "no node is added, for slack neither",
    "preemption": "no pod is deleted for a more important one",
    "migration": "no live migration begins",
    "nomination": "no pod is nominated after a sample miss",
    ALL: "all of these; pods are still placed, and permits still answered",
}
_LONGEST_REASON: Final = 500


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    what = "\n".join(f"  {name:<11} {meaning}" for name, meaning in _MEANINGS.items())
    pause = commands.add_parser(
        "pause",
        help="stop an activity of the service at once; without an activity: say what is paused",
        description="Stops an activity on all replicas, within a second and over restarts, until\n"
        f"`slackwater resume`. It writes ConfigMap slackwater-pause in kube-system.\n\nactivities:\n{what}",
        epilog='example:\n  slackwater pause scale-down --reason "incident 42"',
    )
    _add_activities(pause)
    pause.add_argument("--reason", default="", metavar="TEXT", help="why, for everybody who sees that it is paused")
    add_watch(pause)
    add_cluster(pause)
    add_output(pause)
    pause.set_defaults(run=run_pause)
    resume = commands.add_parser(
        "resume",
        help="let a paused activity go on",
        description="Lets paused activities go on, on all replicas within a second.",
        epilog="example: slackwater resume all",
    )
    _add_activities(resume, required=True)
    add_cluster(resume)
    add_output(resume)
    resume.set_defaults(run=run_resume)


def _add_activities(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    parser.add_argument("activities", nargs="+" if required else "*", metavar="ACTIVITY", help=f"of {', '.join(_MEANINGS)}")


def run_pause(args: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from slackwater.app import pauses

    _check(args.activities)
    if len(args.reason) > _LONGEST_REASON:
        raise CommandFailed([f"--reason: got {len(args.reason)} characters, want at most {_LONGEST_REASON}"])
    if args.reason and not args.activities:
        raise CommandFailed(["--reason: got no activity, want one to pause"])
    if not args.activities:
        return watched(args, lambda: _print(args, with_cluster(args, pauses.read)))
    if args.watch:
        raise CommandFailed(["--watch: got it with an activity, want it alone: it shows what is paused"])

    async def pause(client: "KubeClient") -> Mapping[str, str]:
        return await pauses.pause(client, args.activities, now=datetime.now(UTC), reason=args.reason)

    return _print(args, with_cluster(args, pause))


def run_resume(args: argparse.Namespace) -> int:
    from slackwater.app import pauses

    _check(args.activities)
    return _print(args, with_cluster(args, partial(pauses.resume, activities=args.activities)))


def _check(activities: list[str]) -> None:
    unknown = [each for each in activities if each not in _MEANINGS]
    if unknown:
        raise CommandFailed([f"got activity {unknown[0]!r}, want one of {', '.join((*ACTIVITIES, ALL))}"])


def _print(args: argparse.Namespace, notes: Mapping[str, str]) -> int:
    rows = [("PAUSED", "NOTE"), *sorted(notes.items())]
    show(args, {"paused": dict(notes)}, lambda: columns(rows) if notes else ["nothing is paused"])
    return 0
