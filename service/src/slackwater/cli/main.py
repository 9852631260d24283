"""The command `slackwater`: parses arguments, runs a subcommand, and turns errors into lines on stderr and an exit code.

An error in an argument is one line, and suggests the most similar command or option. The subcommands are in `commands/`. They
import what they need when they run, so that `--help` is fast.
"""

import argparse
import gc
import os
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NoReturn

from slackwater import __version__
from slackwater.cli.commands import (
    cleanup,
    completion,
    config,
    demo,
    doctor,
    drains,
    dumpstate,
    explain,
    history,
    man,
    pause,
    replay,
    report,
    scheduler_config,
    serve,
    simulate,
    worth,
)
from slackwater.cli.commands.output import BAD_INPUT, INTERRUPTED, CommandFailed

#: Almost all objects that a command imports and reads are kept, so garbage is looked for less often.
_GC_THRESHOLDS: Final = (50_000, 20, 20)
#: Suggestions for words that people type instead of a two-word command, or know from other programs.
_MEANT: Final = {
    "check": "config check",
    "schema": "config schema",
    "rbac": "config rbac",
    "from-cluster-autoscaler": "config from-cluster-autoscaler",
    "from-karpenter": "config from-karpenter",
    "placement": "simulate placement",
    "scale-up": "simulate scale-up",
    "scale-down": "simulate scale-down",
    "consolidate": "simulate consolidate",
    "why": "explain",
    "describe": "explain",
    "run": "serve",
    "start": "serve",
    "unpause": "resume",
    "uninstall": "cleanup",
}


class Parser(argparse.ArgumentParser):
    """An argument parser with our error messages. It accepts no abbreviated options, which new options would make ambiguous.

    After parsing, attribute `parser` of the namespace is the parser of the given command.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        texts = f"{kwargs.get('description')}{kwargs.get('epilog')}"  # what has lines of its own keeps them
        layout = argparse.RawDescriptionHelpFormatter if "\n" in texts else argparse.HelpFormatter
        super().__init__(*args, **{"allow_abbrev": False, "formatter_class": layout, **kwargs})
        self.set_defaults(parser=self)

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"slackwater: {message}\nslackwater: see `{self.prog} --help`\n")

    def parse_command(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """Parses the arguments of one command. If an argument is unknown, exits with the message of the command's own
        parser."""
        args, unknown = self.parse_known_args(argv)
        if unknown:
            parser: Parser = args.parser
            options = (option for action in parser._actions for option in action.option_strings)
            asked = f"; did you mean {near}?" if (near := _near(unknown[0].partition("=")[0], options)) else ""
            parser.error(f"unrecognized arguments: {' '.join(unknown)}{asked}")
        return args

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = _near(str(value), choices)
        meant = _MEANT.get(str(value), "")
        if near is None and meant.partition(" ")[0] in choices:
            near = meant
        hint = f"did you mean {near}?" if near else f"choose from {', '.join(choices)}"
        raise argparse.ArgumentError(action, f"invalid choice: {str(value)!r} ({hint})")


def _near(word: str, known: Iterable[str]) -> str | None:
    """The known word that begins with `word`, if exactly one does; else the most similar known word; None if none is
    similar."""
    words = sorted(set(known))
    begun = [each for each in words if len(word.strip("-")) > 1 and each.startswith(word)]
    if len(begun) == 1:
        return begun[0]
    found = get_close_matches(word, words, n=1)
    return found[0] if found else None


#: kubectl finds a program of this name on the PATH, and runs it as `kubectl slackwater`.
_PLUGIN: Final = "kubectl-slackwater"
_HELP: Final = """\
Slackwater is a companion of kube-scheduler: it places, grows, migrates,
preempts and drains the workloads of a cluster from one cluster state and one
definition of "fits". kube-scheduler asks it as an extender, agents ask it for
permits, and it adds and removes nodes if its configuration says so.

try and run it:
  demo                a cluster with the service and a small workload
  serve               the service

configure:
  config check        say everything that is wrong with a configuration file
  config schema       describe all its keys (JSON Schema)
  config rbac         print the rights that the service needs with a file
  config from-cluster-autoscaler, from-karpenter
                      write the file that behaves as what is installed now
  doctor              look for what would keep it from working in a cluster
  scheduler-config    write kube-scheduler's configuration file, or check one
  completion          print the completion of this command for a shell
  man                 print the manual page of a command

ask what would happen:
  simulate placement  where could each pending pod go, and why not elsewhere?
  simulate scale-up   which nodes would be added for the pending pods?
  simulate scale-down which nodes could go, and where would their pods go?
  simulate consolidate
                      which nodes could cheaper ones replace, and what is saved?
  worth               what would it save, and what keeps it from saving more?

stop it, in part or all at once:
  pause               stop scale-down, scale-up, preemption, migration,
                      nomination, or all of these
  resume              let it go on
  cleanup             take away everything that it has written in the cluster

look inside:
  explain             why a pod waits, a node stays, a group does not grow, and
                      what would help
  history             who evicted, preempted, moved or refused a pod, and
                      why; also yesterday
  report              what happened to nodes, money and pods, and what would
                      have happened with Slackwater
  dumpstate           print the state of a running service
  drains              which nodes are being removed; stop one
  replay              repeat recorded decisions: are they the same?
"""

_EXAMPLES: Final = """\
examples:
  slackwater demo                            see it work, here and in seconds
  slackwater explain pod shop/web-2          why is it pending?
  slackwater explain pod shop/web-2 --watch  ... and is it still?
  slackwater simulate scale-down             which nodes could go?
  slackwater doctor                          would it work in this cluster?
  slackwater config check slackwater.yaml    before a rollout
  slackwater serve --config slackwater.yaml --kubeconfig ~/.kube/config
  slackwater scheduler-config --check scheduler.yaml       find the known traps
  slackwater history pod shop/web-2 --since 24h            what happened to it?
  slackwater pause all --reason "incident 42"              stop it at once
  slackwater dumpstate -o json | jq '.nodes[0]'
  kubectl slackwater explain pod shop/web-2  the same as a plug-in of kubectl

exit codes: 0 answered; 1 answered, and the answer is no (problems found); 2 bad
input; 3 there is no such object; 4 nothing answers; 5 the account may not ask.
`slackwater COMMAND --help` explains a command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. `argv`: the arguments after the program's name; None: those of the
    process."""
    try:
        args = make_parser(plugin=argv is None and Path(sys.argv[0]).name == _PLUGIN).parse_command(argv)
    except SystemExit as done:  # --help, --version, bad arguments
        return done.code if isinstance(done.code, int) else 0
    gc.set_threshold(*_GC_THRESHOLDS)
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
        # The reader has closed the pipe (`| head`). Python flushes stdout again at exit, which must not fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def make_parser(*, plugin: bool = False) -> Parser:
    """Makes the parser with all commands. `plugin`: kubectl runs the command, which then asks only the service of the
    kubeconfig's cluster."""
    program = "kubectl slackwater" if plugin else "slackwater"
    parser = Parser(
        prog=program,
        usage=f"{program} COMMAND [ARGUMENTS]",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"slackwater {__version__}")
    parser.set_defaults(plugin=plugin)
    commands = parser.add_subparsers(prog=program, metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    for command in (
        demo,
        serve,
        config,
        scheduler_config,
        simulate,
        worth,
        explain,
        history,
        report,
        dumpstate,
        drains,
        replay,
        pause,
        cleanup,
        doctor,
        completion,
        man,
    ):
        command.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
