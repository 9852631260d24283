"""The command `slackwater`: finds the command, runs it, and turns what went wrong into a line on stderr and a code.

Deliberately absent: what commands do (`commands/`, which import what they need when they run, so that `--help` is
quick).
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from slackwater import __version__
from slackwater.cli.commands import config, demo, dumpstate, explain, replay, schedulerconfig, serve, simulate
from slackwater.cli.commands.failure import BAD_INPUT, INTERRUPTED, CommandFailed

_HELP: Final = """\
Slackwater is a companion of kube-scheduler: it places, grows, migrates, preempts and drains the workloads of a cluster
from one cluster state and one definition of "fits". kube-scheduler asks it as an extender, agents ask it for permits,
and it adds and removes nodes itself where it is told to.

run:
  demo                a cluster with the service and a small workload, to look at
  serve               the service

configure:
  config check        say everything that is wrong with a configuration file
  config schema       describe all its keys (JSON Schema)
  scheduler-config    write kube-scheduler's configuration file, or check one

ask what would happen:
  simulate placement  say from a file where each pending pod could go, and why not elsewhere
  simulate scale-up   ... which nodes would be added for the pending pods
  simulate scale-down ... which nodes could be removed together, and where their pods would go

look inside:
  explain             say why a pod waits, a node stays, a group does not grow; and what would help
  dumpstate           print the state of a running service
  replay              repeat recorded decisions: are they the same?
"""

_EXAMPLES: Final = """\
examples:
  slackwater demo --control-plane                          see it work on this machine
  slackwater config check slackwater.yaml                  before a rollout
  slackwater serve --config slackwater.yaml --kubeconfig ~/.kube/config
  slackwater scheduler-config --config slackwater.yaml > scheduler.yaml
  slackwater scheduler-config --check scheduler.yaml       find the known traps
  kubectl get nodes,pods -A -o json | slackwater simulate placement --cluster -
  slackwater explain pod shop/web-2                        why is it pending?
  slackwater replay decisions.rec                          the same decisions in another process?
  slackwater dumpstate -o json | jq '.nodes[0]'

exit codes: 0 done; 1 done, and the answer is no (problems found, service not reachable); 2 bad input.
`slackwater COMMAND --help` explains a command.
"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and where help is. Options are spelled out: a new one must not change old scripts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"slackwater: {message}\nslackwater: see `{self.prog} --help`\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; `argv` without the program's name, by default the process's."""
    try:
        args = _parser().parse_args(argv)
    except SystemExit as done:  # --help, --version, bad arguments
        return done.code if isinstance(done.code, int) else 0
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except CommandFailed as failed:
        for line in failed.lines:
            print(f"slackwater: {line}", file=sys.stderr)
        return failed.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough (`| head`). Python flushes stdout once more at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="slackwater",
        usage="slackwater COMMAND [ARGUMENTS]",
        description=_HELP,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"slackwater {__version__}")
    commands = parser.add_subparsers(prog="slackwater", metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    for command in (demo, serve, config, schedulerconfig, simulate, explain, dumpstate, replay):
        command.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
