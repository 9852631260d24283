"""Gives commands that read or write the cluster themselves a client of the API server."""

import argparse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from slackwater.cli.commands.output import NO_ANSWER, CommandFailed, code_of_status

if TYPE_CHECKING:
    from slackwater.adapters.kube.client import KubeClient

T = TypeVar("T")

#: The advice in errors if the API server cannot be reached.
OTHER_CLUSTER: Final = "is it up, and is it the one you mean? --kubeconfig and --context name another cluster"


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name the cluster, unless the parser has them."""
    if any("--kubeconfig" in action.option_strings for action in parser._actions):
        return
    parser.add_argument(
        "--kubeconfig",
        metavar="F",
        help="the cluster (default: $KUBECONFIG, ~/.kube/config, or the Pod's own account)",
    )
    parser.add_argument("--progress", action="store_true", help="show progress on stderr, also where it is no terminal")
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context (default: its current one)")


def with_cluster(args: argparse.Namespace, work: Callable[["KubeClient"], Awaitable[T]], *, instead: str = "") -> T:
    """Calls `work` with a client of the cluster, and returns its result. Raises `CommandFailed` if that fails. If there is no
    kubeconfig, the error suggests the option `instead`, which needs no cluster."""
    import anyio

    from slackwater.adapters.kube.client import open_client
    from slackwater.adapters.kube.errors import KubeConfigError, KubeError, StatusError, Unreachable

    kubeconfig = kubeconfig_of(args, instead)

    async def done() -> T:
        async with open_client(kubeconfig=kubeconfig, context=args.context) as client:
            return await work(client)

    try:
        return anyio.run(done)
    except KubeConfigError as err:
        raise CommandFailed([f"{err}; --kubeconfig names another file"]) from err
    except KubeError as err:
        lines = [str(err), *([OTHER_CLUSTER] if isinstance(err, Unreachable) else [])]
        raise CommandFailed(lines, code=code_of_status(err.code) if isinstance(err, StatusError) else NO_ANSWER) from err


def kubeconfig_of(args: argparse.Namespace, instead: str = "") -> str | None:
    """The path of the kubeconfig to use; None: the command runs in a Pod and uses its service account. Raises `CommandFailed`
    if there is neither. `instead` is as in `with_cluster`."""
    if args.kubeconfig:
        return str(args.kubeconfig)
    from slackwater.adapters.kube.access import usual_kubeconfig
    from slackwater.adapters.kube.errors import KubeConfigError

    try:
        return usual_kubeconfig()
    except KubeConfigError as err:
        raise CommandFailed([f"{err}; want {f'--kubeconfig F, or {instead}' if instead else '--kubeconfig F'}"]) from err
