"""The program `kubectl_complete-slackwater`, which kubectl runs to complete a command line of its plug-in slackwater.

kubectl passes the words after `kubectl slackwater`; the last is to be completed, and may be empty. It wants one choice a line,
with a description after a tab, and at the end a line `:N`, a directive of its library cobra. The choices come from the parser
that parses commands; names of objects come from the cluster (`completed_names`).
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from slackwater.cli.commands.man import help_of
from slackwater.cli.commands.object_names import KINDS, canonical
from slackwater.cli.completed_names import names_of
from slackwater.cli.main import make_parser

#: Directives: the shell completes files; it does not.
_FILES: Final = 0
_NO_FILES: Final = 4
_MANY: Final = ("*", "+")


def main() -> int:
    lines, directive = completions(make_parser(plugin=True), sys.argv[1:], names_of)
    print("\n".join([*lines, f":{directive}"]), flush=True)
    return 0


#: The names of the objects of a kind that begin with a text, in the cluster and the namespace that the options name.
Ask = Callable[[str, str, argparse.Namespace], list[str]]


def completions(parser: argparse.ArgumentParser, words: Sequence[str], ask: Ask) -> tuple[list[str], int]:
    """The choices for the last of the words, and the directive."""
    *before, last = words or [""]
    positionals, awaited = _positionals(parser), None
    typed = argparse.Namespace(kubeconfig=None, context=None, namespace=None, kind="")
    for word in before:
        if awaited is not None:
            setattr(typed, awaited.dest, word)
            awaited = None
        elif word.startswith("-"):
            option, equals, value = word.partition("=")
            action = parser._option_string_actions.get(option)
            awaited = action if action is not None and action.nargs != 0 and not equals else None
            if action is not None and equals:
                setattr(typed, action.dest, value)
        elif positionals and isinstance(below := positionals[0], argparse._SubParsersAction):
            if word not in below.choices:
                return [], _NO_FILES
            parser = below.choices[word]
            positionals = _positionals(parser)
        elif positionals and positionals[0].nargs not in _MANY:
            setattr(typed, positionals[0].dest, word)
            positionals = positionals[1:]
    if awaited is None and last.startswith("-"):
        return [line for line in _options(parser) if line.startswith(last)], _NO_FILES
    action = awaited or (positionals[0] if positionals else None)
    if action is None:
        return [], _NO_FILES
    found = [line for line in _choices(action, last, typed, ask) if line.startswith(last)]
    return found, _FILES if action.metavar in {"F", "FILE", "DIR"} else _NO_FILES


def _positionals(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield from (f"{option}\t{help_of(parser, action)}" for option in action.option_strings)


def _choices(action: argparse.Action, last: str, typed: argparse.Namespace, ask: Ask) -> Iterator[str]:
    if isinstance(action, argparse._SubParsersAction):
        yield from (f"{choice.dest}\t{choice.help}" for choice in action._choices_actions)
    elif action.dest in {"namespace", "node", "context"}:
        yield from ask(action.dest, last, typed)
    elif action.dest == "name":
        yield from _names(canonical(typed.kind), last, typed, ask)
    elif action.dest == "kind" and "/" in last:
        kind, _, begun = last.partition("/")
        yield from (f"{kind}/{name}" for name in _names(canonical(kind), begun, typed, ask))
    else:
        yield from map(str, action.choices or ())


def _names(kind: str, begun: str, typed: argparse.Namespace, ask: Ask) -> list[str]:
    """The names of objects of a kind, behind the namespace if one is typed before them."""
    if kind not in KINDS:
        return []
    namespace, slash, begun = begun.rpartition("/")
    if slash:
        typed = argparse.Namespace(**{**vars(typed), "namespace": namespace})
    return [f"{namespace}{slash}{name}" for name in ask(kind, begun, typed)]
