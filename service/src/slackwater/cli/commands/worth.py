"""`slackwater worth`: says what the service would save in a cluster, which it only reads, and what keeps it from more."""

import argparse
import re
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from slackwater.app.progress import Progress, shown
from slackwater.cli.commands.cluster import with_cluster
from slackwater.cli.commands.ops_client import add_listener
from slackwater.cli.commands.output import NO_ANSWER, CommandFailed, add_report_output, report_lines
from slackwater.cli.commands.simulate_common import add_group_label, add_version, failed, read_simulated
from slackwater.model.ids import DAY_SECONDS

if TYPE_CHECKING:
    from slackwater.app.settings import Settings
    from slackwater.app.worth.use import Use

_DESCRIPTION: Final = """\
Plays the rounds that the service would play with the cluster until nothing
changes any more: pods are placed, nodes come and go, on virtual time. Reports
nodes, cores, memory and money now and at the end, evictions, how long it takes,
what stays and why, and whom the money is for. The cluster is only read: the
command lists its objects once. Groups, limits, budgets and timers are those of
--config. Without prices the formula of docs/prices.md counts, and the report
says so. Exit code 0: reported; 2: a file cannot be read; 4: the cluster does
not answer; 5: the account may not ask.
"""
_EXAMPLES: Final = """\
examples:
  slackwater worth                         of the cluster that kubectl speaks to
  slackwater worth --prices prices.csv -o html > worth.html
  kubectl get nodes,pods,namespaces,deployments,replicasets,statefulsets,\\
daemonsets,poddisruptionbudgets,services,pvc,pv,storageclasses,csinodes \\
-A -o json > cluster.json
  slackwater worth --cluster cluster.json --config slackwater.yaml
  ... --by-label team                      whom is the money for?
"""
MONTH_DAYS: Final = 30
_LONGEST_DAYS: Final = 3_660
_HORIZON: Final = re.compile(r"([0-9]{1,5})(d|h)")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "worth",
        help="say what it would save in this cluster, and what keeps it from saving more",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "--cluster", metavar="F", help="a file or folder, JSON or YAML; - for stdin (default: the kubeconfig's cluster)"
    )
    add_listener(parser)
    parser.add_argument("--config", metavar="F", help="Slackwater's configuration file: groups, limits, timers, prices")
    parser.add_argument("--prices", metavar="F", help="a price table, CSV or JSON, in place of autoscaler.prices.table")
    parser.add_argument("--horizon", metavar="T", type=_horizon, default=MONTH_DAYS * DAY_SECONDS, help="30d (default), 12h")
    parser.add_argument("--prometheus", metavar="URL", help="what pods use (p95 over 24 h), beside their requests")
    parser.add_argument("--prometheus-token", metavar="F", help="a file with the bearer token for Prometheus")
    parser.add_argument("--prometheus-ca", metavar="F", help="a file with the certificates that its TLS is verified by")
    parser.add_argument("--by-label", metavar="KEY", type=_label, help="divide the money by this label of the pods, too")
    add_version(parser)
    add_group_label(parser)
    add_report_output(parser)
    parser.set_defaults(run=run)


def _horizon(text: str) -> int:
    found = _HORIZON.fullmatch(text)
    seconds = 0 if found is None else int(found[1]) * (DAY_SECONDS if found[2] == "d" else 3600)
    if not 0 < seconds <= _LONGEST_DAYS * DAY_SECONDS:
        raise argparse.ArgumentTypeError(f"got {text!r}, want days or hours up to {_LONGEST_DAYS}d, such as 30d or 12h")
    return seconds


def _label(text: str) -> str:
    from slackwater.configuration.values import QUALIFIED_NAME

    if not re.fullmatch(QUALIFIED_NAME.pattern, text):
        raise argparse.ArgumentTypeError(f"got {text!r}, want the key of a label, such as team or example.com/team")
    return text


def run(args: argparse.Namespace) -> int:
    from slackwater.app.simulation import SimulationError
    from slackwater.app.worth.view import view_of

    _check(args)
    try:
        with shown(forced=args.progress) as progress:
            simulation = read_simulated(args, progress)
            use, unknown = _use(args, progress)
            read = simulation.read
            progress.step(f"playing the rounds: {len(read.nodes)} nodes, {len(read.pods)} pods", total=args.horizon)
            simulation = replace(simulation, settings=_priced(simulation.settings, args.prices))
            answer = simulation.worth(
                horizon=timedelta(seconds=args.horizon), by_label=args.by_label, use=use, report=progress.at
            )
    except SimulationError as error:
        raise failed(error) from error
    if unknown:
        print(f"use is not known: {unknown}", file=sys.stderr)
    print("\n".join(report_lines(args.output, answer, view_of(answer))))
    return 0


def _use(args: argparse.Namespace, progress: Progress) -> "tuple[Use | None, str]":
    """What pods use, and why that is not known. Asked for with --prometheus, it has to be known: raises `CommandFailed`. Else
    the metrics API of the cluster is asked, if the cluster is one that answers."""
    from slackwater.app.worth.use import UseUnknown, from_metrics_api, from_prometheus

    of_service = args.url is not None and not (args.kubeconfig or args.context)  # perhaps of another cluster than kubectl's
    if args.prometheus is None and (args.cluster is not None or of_service):
        return None, ""
    try:
        if args.prometheus is None:
            progress.step("reading what pods use")
            return with_cluster(args, from_metrics_api), ""
        progress.step("asking Prometheus")
        token = ""
        if args.prometheus_token is not None:
            token = Path(args.prometheus_token).read_text(encoding="ascii").strip()
        return from_prometheus(args.prometheus, token=token, ca_file=args.prometheus_ca), ""
    except (OSError, UnicodeError) as err:
        raise CommandFailed([f"--prometheus-token: {args.prometheus_token}: {getattr(err, 'strerror', None) or err}"]) from err
    except UseUnknown as err:
        if args.prometheus is None:
            return None, str(err)
        raise CommandFailed([f"--prometheus: {err}"], code=NO_ANSWER) from err


def _check(args: argparse.Namespace) -> None:
    if args.cluster is not None and (args.kubeconfig or args.context):
        raise CommandFailed(["--cluster: got it with --kubeconfig or --context, want a file or a cluster"])
    if args.cluster == "-" and args.config == "-":
        raise CommandFailed(["--cluster and --config: got - twice, want at most one of them from stdin"])
    if args.prometheus is None and (args.prometheus_token or args.prometheus_ca):
        raise CommandFailed(["--prometheus-token and --prometheus-ca: got one without --prometheus, want its URL"])


def _priced(settings: "Settings", table: str | None) -> "Settings":
    """The settings with the table of `--prices`."""
    from slackwater.controllers.scaleup.settings import Prices

    if table is None:
        return settings
    prices = (settings.autoscaler.prices or Prices()).model_copy(update={"table": table})
    autoscaler = settings.autoscaler.model_copy(update={"prices": prices})
    return settings.model_copy(update={"autoscaler": autoscaler})
