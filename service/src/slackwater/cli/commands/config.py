"""`slackwater config check | schema | rbac`: checks and describes the configuration file, without running anything. Its other
two commands are in `convert`."""

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from slackwater.cli.commands import convert
from slackwater.cli.commands.output import ANSWERED_NO, BAD_INPUT, add_output, name_of, print_count, show, text_of

if TYPE_CHECKING:
    from slackwater.app.settings import Problem


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "config", help="check, describe or write a configuration file", description="About the service's file."
    )
    parts = parser.add_subparsers(metavar="COMMAND", required=True)
    check = parts.add_parser(
        "check",
        help="say everything that is wrong with a file",
        description="Says everything that is wrong with a configuration file, each with its JSON path, and what of it "
        "has no effect. Exit code 0: it is valid; 1: it is not; 2: it cannot be read at all.",
    )
    check.add_argument("file", metavar="F", help="the file, YAML or JSON; - for stdin")
    add_output(check, "table")
    check.set_defaults(run=run)
    schema = parts.add_parser(
        "schema",
        help="print the JSON Schema of the file",
        description="Prints the JSON Schema (draft 2020-12) of the configuration file, with unit, default and reason "
        "of every key. Editors check and complete a file with it.",
    )
    schema.set_defaults(run=run_schema)
    rights = parts.add_parser(
        "rbac",
        help="print the rights that the service needs with a file",
        description="Prints the account, the roles and the bindings that the service needs with a configuration file, as "
        "YAML for `kubectl apply -f -`. Exit code 0; 2: the file is not valid.",
    )
    rights.add_argument("file", metavar="F", help="the file, YAML or JSON; - for stdin")
    rights.add_argument(
        "--shadow", action="store_true", help="those of a shadow, which only reads; as `mode: shadow` in the file"
    )
    rights.set_defaults(run=run_rbac)
    convert.add_parsers(parts)


def run_schema(args: argparse.Namespace) -> int:
    from slackwater.app.settings import schema

    print(json.dumps(schema(), indent=2))
    return 0


def run_rbac(args: argparse.Namespace) -> int:
    from slackwater.app import rbac
    from slackwater.app.settings import SettingsError, loads

    try:
        settings = loads(text_of(args.file), source=name_of(args.file))
        print(rbac.manifest(settings.model_copy(update={"mode": "shadow"} if args.shadow else {})), end="")
    except SettingsError as err:
        print(f"slackwater: {err}", file=sys.stderr)
        return BAD_INPUT
    return 0


def run(args: argparse.Namespace) -> int:
    from slackwater.app.settings import SettingsError, UnreadableSettings, loads, notes

    source = name_of(args.file)
    problems: tuple[Problem, ...] = ()
    remarks: list[str] = []
    code = 0
    try:
        remarks = notes(loads(text_of(args.file), source=source))
    except SettingsError as err:
        problems = err.problems
        code = BAD_INPUT if isinstance(err, UnreadableSettings) else ANSWERED_NO
    document = {
        "file": source,
        "valid": not problems,
        "problems": [{**asdict(problem), "message": str(problem)} for problem in problems],
        "notes": remarks,
    }
    lines = [*map(str, problems), *(f"note: {remark}" for remark in remarks), *([] if problems else ["valid"])]
    show(args, document, lambda: [f"{source}: {line}" for line in lines])
    print_count(source, "problem", [problem.path or "the file" for problem in problems])
    return code
