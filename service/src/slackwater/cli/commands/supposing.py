"""`--suppose F` and `--live`: the cluster of a file, or of a running service, with some objects more, less or otherwise.

F has the keys of the body of `POST /simulate/...`. Deliberately absent: what follows from it (`app.whatif`).
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from slackwater.cli.commands.asking import fetch
from slackwater.cli.commands.failure import ANSWERED_NO, CommandFailed
from slackwater.cli.commands.sources import name_of

if TYPE_CHECKING:
    from slackwater.app.offline import Cluster
    from slackwater.app.settings import Settings
    from slackwater.ports.protocols import Question


def check_sources(args: argparse.Namespace) -> None:
    """Raises `CommandFailed` where two files are to come from stdin, or a running service is to have other settings."""
    given = [option for option in ("cluster", "config", "suppose") if getattr(args, option) == "-"]
    if len(given) > 1:
        twice = " and ".join(f"--{option}" for option in given)
        raise CommandFailed([f"{twice}: got - twice, want at most one of them from stdin"])
    if args.live and args.config is not None:
        raise CommandFailed(["--config: got it with --live, want the service's own, with `configuration` in --suppose"])


def supposed(args: argparse.Namespace, cluster: "Cluster", settings: "Settings") -> tuple["Cluster", "Settings"]:
    """As `--suppose` says, or as they are. Raises `CommandFailed` with the place of what is wrong."""
    if args.suppose is None:
        return cluster, settings
    from slackwater.adapters.http.whatif import supposed_of
    from slackwater.app.settings import SettingsError
    from slackwater.app.whatif.configuring import configured
    from slackwater.app.whatif.supposing import suppose
    from slackwater.ports.protocols import WhatIfRefused

    try:
        said = supposed_of(json.dumps(_document(args.suppose)).encode())
        settings = configured(settings, said.configuration)
        return suppose(cluster, objects=said.objects, remove=said.remove), settings
    except WhatIfRefused as refused:
        raise CommandFailed([f"{name_of(args.suppose)}: {refused}"]) from refused
    except SettingsError as error:
        raise CommandFailed([f"{name_of(args.suppose)}: {line}" for line in error.lines()]) from error


def answered_live(args: argparse.Namespace, question: "Question") -> Iterator[Mapping[str, Any]]:
    """The lines that the running service answers. Raises `CommandFailed`."""
    body = {} if args.suppose is None else _document(args.suppose)
    options = {name: True for name in ("accounting", "sequential") if getattr(args, name, False)}
    path = f"/simulate/{question}"
    told = fetch(path, args, json.dumps({**body, **options}).encode())
    try:
        for line in told.splitlines():
            yield json.loads(line)
    except ValueError as error:
        raise CommandFailed([f"{args.url}{path}: got no JSON: {error}"], code=ANSWERED_NO) from error


def _document(path: str) -> dict[str, Any]:
    """JSON or YAML; what options say is not for it."""
    import msgspec

    from slackwater.app.offline import ClusterError
    from slackwater.app.offline.reading import documents, file_bytes
    from slackwater.app.offline.shape import NESTED_TOO_DEEPLY

    try:
        found = [msgspec.json.decode(document) for document in documents(file_bytes(path))]
    except (ClusterError, ValueError) as error:
        raise CommandFailed([f"{name_of(path)}: {error}"]) from error
    except RecursionError as error:
        raise CommandFailed([f"{name_of(path)}: {NESTED_TOO_DEEPLY}"]) from error
    if len(found) != 1 or not isinstance(found[0], dict):
        raise CommandFailed([f"{name_of(path)}: got no mapping, want one with objects, remove, configuration"])
    for option in ("accounting", "sequential"):
        if option in found[0]:
            raise CommandFailed([f"{name_of(path)}: {option}: got it in the file, want the option --{option}"])
    return found[0]
