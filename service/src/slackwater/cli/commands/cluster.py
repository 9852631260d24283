"""Access to the API server for commands that read or write the cluster themselves."""

import argparse
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from slackwater.cli.commands.failure import ANSWERED_NO, CommandFailed

if TYPE_CHECKING:
    from slackwater.adapters.kube.client import KubeClient

T = TypeVar("T")

#: What to do where the API server cannot be reached.
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
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context (default: its current one)")


def with_cluster(args: argparse.Namespace, work: Callable[["KubeClient"], Awaitable[T]], *, instead: str = "") -> T:
    """What `work` returns, called with a client of the cluster. Raises `CommandFailed`; without a kubeconfig the error names
    `instead`, an option that does without the cluster."""
    import anyio

    from slackwater.adapters.kube.client import open_client
    from slackwater.adapters.kube.errors import KubeConfigError, KubeError, Unreachable

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
        raise CommandFailed(lines, code=ANSWERED_NO) from err


def kubeconfig_of(args: argparse.Namespace, instead: str = "") -> str | None:
    """The kubeconfig to use; None for the account of the Pod that the command runs in. Raises `CommandFailed`."""
    if args.kubeconfig:
        return str(args.kubeconfig)
    if named := os.environ.get("KUBECONFIG"):
        return named
    usual = Path.home() / ".kube" / "config"
    if usual.exists():
        return str(usual)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    want = f"--kubeconfig F, or {instead}" if instead else "--kubeconfig F"
    raise CommandFailed([f"got no kubeconfig: {usual} does not exist and $KUBECONFIG is not set; want {want}"])
