"""`slackwater man`: prints the manual page of a command, made of the parser that `--help` reads too.

slackwater man explain | man -l -
slackwater man --into ~/.local/share/man/man1      # one file for each command
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from slackwater import __version__
from slackwater.cli.commands.output import CommandFailed

_DESCRIPTION: Final = """\
Prints the manual page of a command, or writes those of all commands into a
folder. Exit code 0: printed; 2: there is no such command, or the folder cannot
be written.
"""
_EXAMPLES: Final = """\
examples:
  slackwater man explain | man -l -
  slackwater man simulate placement > slackwater-simulate-placement.1
  slackwater man --into ~/.local/share/man/man1
"""
#: A page in roff, section 1.
_SECTION: Final = "1"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("man", help="print the manual page of a command", description=_DESCRIPTION, epilog=_EXAMPLES)
    parser.add_argument("words", metavar="COMMAND", nargs="*", help="the command, such as explain or simulate placement")
    parser.add_argument("--into", metavar="DIR", help="write the pages of all commands into this folder")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from slackwater.cli.main import make_parser

    pages = dict(_pages(make_parser(), "slackwater", "a companion of kube-scheduler"))
    if args.into is None:
        name = "-".join(("slackwater", *args.words))
        if name not in pages:
            raise CommandFailed([f"man: got {' '.join(args.words)!r}, want a command of `slackwater --help`"])
        print(pages[name], end="")
        return 0
    if args.words:
        raise CommandFailed([f"--into: got it with {' '.join(args.words)}, want it alone: it writes the pages of all commands"])
    try:
        folder = Path(args.into)
        folder.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            (folder / f"{name}.{_SECTION}").write_text(page, encoding="utf-8")
    except OSError as err:
        raise CommandFailed([f"--into: {args.into}: {err.strerror}"]) from err
    return 0


def _pages(parser: argparse.ArgumentParser, name: str, summary: str) -> Iterator[tuple[str, str]]:
    """The names and pages of the command and of all below it."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    children = [
        (f"{name}-{choice.dest}", action.choices[choice.dest], choice.help or "")
        for action in below
        for choice in action._choices_actions
    ]
    yield name, "\n".join(_page(parser, name, summary, [child for child, _, _ in children])) + "\n"
    for child, its_parser, its_summary in children:
        yield from _pages(its_parser, child, its_summary)


def _page(parser: argparse.ArgumentParser, name: str, summary: str, below: list[str]) -> Iterator[str]:
    yield f'.TH "{name.upper()}" "{_SECTION}" "" "Slackwater {__version__}" "Slackwater"'
    yield from (".SH NAME", rf"{_plain(name)} \- {_plain(summary)}")
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    yield from (".SH SYNOPSIS", _plain(usage))
    if parser.description:
        yield from (".SH DESCRIPTION", *_as_it_stands(parser.description))
    options = [action for action in parser._actions if action.help != argparse.SUPPRESS and not _is_commands(action)]
    if options:
        yield ".SH OPTIONS"
    for action in options:
        yield from (".TP", _signature(action), _plain(help_of(parser, action)))
    if parser.epilog:
        yield from (".SH EXAMPLES", *_as_it_stands(parser.epilog))
    if below:
        yield from (".SH SEE ALSO", ", ".join(f"{_plain(each)}({_SECTION})" for each in below))


def help_of(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """The help text of an argument, as `--help` prints it."""
    return parser._get_formatter()._expand_help(action) if action.help else ""


def _is_commands(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)


def _signature(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else _plain(str(action.metavar or action.dest.upper()))
    if not action.option_strings:
        return rf"\fI{value}\fR"
    names = ", ".join(rf"\fB{_plain(option)}\fR" for option in action.option_strings)
    return rf"{names} \fI{value}\fR" if value else names


def _as_it_stands(text: str) -> Iterator[str]:
    """A text whose lines are kept, because columns in it stand beneath one another."""
    yield ".nf"
    yield from map(_plain, text.rstrip("\n").split("\n"))
    yield ".fi"


def _plain(text: str) -> str:
    """The text without a meaning for roff: of backslashes, hyphens, and dots and quotes that begin a line."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text[:1] in {".", "'"} else text
