"""`slackwater doctor`: reports what would keep Slackwater from working in a cluster, and what to do."""

import argparse
from typing import TYPE_CHECKING

from slackwater.cli.commands.cluster import add_cluster, with_cluster
from slackwater.cli.commands.output import ANSWERED_NO, add_output, add_watch, columns, settings_from, show, watched

if TYPE_CHECKING:
    from slackwater.adapters.kube.client import KubeClient
    from slackwater.app.doctor import Check


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "doctor",
        help="look for what would keep Slackwater from working in a cluster",
        description="Looks at versions, clocks, the API server's flags and feature gates, the APIs\n"
        "that it serves, your rights and the service's, its Pods, other autoscalers and\n"
        "instances, the way for autoscaler agents, and pauses; and says what to do.\n"
        "With autoscaler.enabled it says what consolidation changes, or would change.\n"
        "What your rights do not show is `unknown`. It changes nothing. Exit code 0:\n"
        "nothing is wrong; 1: there are problems; 2: a file cannot be read; 4: the API\n"
        "server does not answer.",
        epilog="example: slackwater doctor --config slackwater.yaml",
    )
    parser.add_argument(
        "--config", metavar="F", help="Slackwater's configuration file (default: that of the installed service)"
    )
    add_cluster(parser)
    add_output(parser)
    add_watch(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    return watched(args, lambda: _examined(args))


def _examined(args: argparse.Namespace) -> int:
    from dataclasses import asdict, astuple
    from datetime import UTC, datetime

    settings = None if args.config is None else settings_from(args.config)

    async def look(client: "KubeClient") -> "list[Check]":
        from slackwater.app.doctor.agents import port_forward_probe
        from slackwater.app.doctor.examination import examine

        checks = examine(client, settings, lambda: datetime.now(UTC), probe=port_forward_probe(client))
        return [check async for check in checks]

    checks = with_cluster(args, look)
    heading = ("CHECK", "STATE", "SEEN", "WHAT TO DO")
    show(args, [asdict(check) for check in checks], lambda: columns([heading, *map(astuple, checks)]))
    return ANSWERED_NO if any(check.state == "problem" for check in checks) else 0
