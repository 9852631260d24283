"""The parser of the command line: errors of one line, with the nearest command or option that exists."""

import argparse
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from slackwater.cli.commands.failure import BAD_INPUT

#: Words that people type for a command of two words, or know from elsewhere.
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
    """Options cannot be abbreviated: a new one must not break old scripts.

    After parsing, `parser` of the namespace is the parser of the command that was named, which knows its own options.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self.set_defaults(parser=self)

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"slackwater: {message}\nslackwater: see `{self.prog} --help`\n")

    def parse_command(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """The arguments of one command. Exits with the message of the command's own parser if one is unknown."""
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
    """The known word that is most like this one, or that it is the beginning of; None if there is none."""
    words = sorted(set(known))
    begun = [each for each in words if len(word.strip("-")) > 1 and each.startswith(word)]
    if len(begun) == 1:
        return begun[0]
    found = get_close_matches(word, words, n=1)
    return found[0] if found else None
