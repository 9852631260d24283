"""`slackwater completion`: prints the completion script for a shell, which shtab makes of the parser (docs/adr/0196)."""

import argparse
from typing import Final

from slackwater.model.pauses import ACTIVITIES, ALL

_EXAMPLES: Final = """\
examples:
  bash: slackwater completion bash > \\
          ~/.local/share/bash-completion/completions/slackwater
  zsh:  slackwater completion zsh > ~/.zfunc/_slackwater
        (with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc)
  fish: slackwater completion fish > ~/.config/fish/completions/slackwater.fish
"""
_SHELLS: Final = ("bash", "zsh", "fish")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "completion",
        help="print the completion of this command for a shell",
        description="Prints a script that completes commands, options and files in a shell.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=", ".join(_SHELLS))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import shtab

    from slackwater.cli.main import make_parser

    parser = make_parser()
    _complete(parser, shtab.FILE)
    print(shtab.complete(parser, shell=args.shell))
    return 0


def _complete(parser: argparse.ArgumentParser, files: object) -> None:
    """Prepares the parser and its subparsers for shtab: marks arguments that are files, and copies the short texts of commands
    to where shtab reads them. Afterwards the parser is not used to parse."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            action.help = "command"  # shtab leaves out actions whose help is suppressed
            for choice in action._choices_actions:
                action.choices[choice.dest].description = choice.help
            for below in action.choices.values():
                _complete(below, files)
        elif action.dest == "activities":
            action.choices = (*ACTIVITIES, ALL)
        elif action.metavar in {"F", "FILE"}:
            action.complete = files  # type: ignore[attr-defined]  # shtab reads this attribute, argparse has it not
