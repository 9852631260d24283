"""Parses the command line. An error is one line, and suggests the most similar command or option."""

import argparse
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from slackwater.cli.commands.output import BAD_INPUT

#: Suggestions for words that people type instead of a two-word command, or know from other programs.
_MEANT: Final = {
    "check": "config check",
    "schema": "config schema",
    "rbac": "config rbac",
    "placement": "simulate placement",
    "scale-up": "simulate scale-up",
    "scale-down": "simulate scale-down",
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
