"""The program `kubectl_complete-slackwater`, which kubectl runs to complete a command line of its plug-in slackwater.

kubectl passes the words after `kubectl slackwater`; the last is to be completed, and may be empty. It wants one choice a line,
with a description after a tab, and at the end a line `:N`, a directive of its library cobra. The choices come from the parser
that parses commands; nothing asks the cluster.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from slackwater.cli.commands.man import help_of
from slackwater.cli.main import make_parser

#: Directives: the shell completes files; it does not.
_FILES: Final = 0
_NO_FILES: Final = 4
_MANY: Final = ("*", "+")


def main() -> int:
    lines, directive = completions(make_parser(plugin=True), sys.argv[1:])
    print("\n".join([*lines, f":{directive}"]))
    return 0


def completions(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[list[str], int]:
    """The choices for the last of the words, and the directive."""
    *before, last = words or [""]
    positionals, awaited = _positionals(parser), None
    for word in before:
        if awaited is not None:
            awaited = None
        elif word.startswith("-"):
            action = parser._option_string_actions.get(word)
            awaited = action if action is not None and action.nargs != 0 else None
        elif positionals and isinstance(below := positionals[0], argparse._SubParsersAction):
            if word not in below.choices:
                return [], _NO_FILES
            parser = below.choices[word]
            positionals = _positionals(parser)
        elif positionals and positionals[0].nargs not in _MANY:
            positionals = positionals[1:]
    if awaited is None and last.startswith("-"):
        return [line for line in _options(parser) if line.startswith(last)], _NO_FILES
    action = awaited or (positionals[0] if positionals else None)
    if action is None:
        return [], _NO_FILES
    found = [line for line in _choices(action) if line.startswith(last)]
    return found, _FILES if action.metavar in {"F", "FILE", "DIR"} else _NO_FILES


def _positionals(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield from (f"{option}\t{help_of(parser, action)}" for option in action.option_strings)


def _choices(action: argparse.Action) -> Iterator[str]:
    if isinstance(action, argparse._SubParsersAction):
        yield from (f"{choice.dest}\t{choice.help}" for choice in action._choices_actions)
    else:
        yield from map(str, action.choices or ())
