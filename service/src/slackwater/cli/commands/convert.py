"""`slackwater config from-cluster-autoscaler | from-karpenter`: writes the configuration file for what is installed now.

Reads objects from files, stdin or the cluster. The file goes to stdout or `--output`, what has no counterpart to stderr. If
anything is refused, nothing is written.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from slackwater.cli.commands.cluster import add_cluster, with_cluster
from slackwater.cli.commands.output import BAD_INPUT, CommandFailed, name_of

if TYPE_CHECKING:
    from slackwater.adapters.kube.client import KubeClient
    from slackwater.app.converters.draft import Converted
    from slackwater.app.converters.workloads import Manifest

WORKLOADS: Final = (
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
    "/api/v1/configmaps",
)
KARPENTER: Final = ("/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1alpha1/nodeoverlays")
_NOT_FOUND: Final = 404
_WRITTEN: Final = (
    "Exit code 0: the file is written; 2: something was refused, or cannot be read, and nothing is written. "
    "-o json prints a list of all flags or fields with value, verdict, setting and reason in place of the file."
)


def add_parsers(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds both commands to those of `config`."""
    former = parts.add_parser(
        "from-cluster-autoscaler",
        help="write the file that behaves as an installed Cluster Autoscaler",
        description="Reads the Deployment of Cluster Autoscaler, its flags and the ConfigMaps beside it, and writes the "
        f"configuration file that behaves alike. {_WRITTEN}",
        epilog="example: kubectl -n kube-system get deploy,cm -o yaml | slackwater config from-cluster-autoscaler -",
    )
    _add(former, "aws, clusterapi, externalgrpc or kwok: who creates nodes here")
    former.add_argument("--address", metavar="HOST:PORT", default="", help="the server of the provider externalgrpc")
    former.set_defaults(run=run_cluster_autoscaler)
    karpenter = parts.add_parser(
        "from-karpenter",
        help="write the file that behaves as Karpenter's NodePools say",
        description="Reads NodePools (karpenter.sh/v1) and the prices of NodeOverlays, and writes a configuration file for "
        f"the provider karpenter, or for another one with a group for each NodePool. {_WRITTEN}",
        epilog="example: kubectl get nodepools -o yaml | slackwater config from-karpenter -",
    )
    _add(karpenter, "karpenter (default), aws, clusterapi, externalgrpc or kwok: who creates nodes here")
    karpenter.set_defaults(run=run_karpenter)


def _add(parser: argparse.ArgumentParser, providers: str) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="manifests, YAML or JSON; - for stdin (default: the cluster)")
    parser.add_argument("--provider", metavar="NAME", default="", help=providers)
    parser.add_argument("--output", metavar="F", dest="target", help="write the configuration to this file (default: stdout)")
    parser.add_argument("-o", dest="format", choices=("yaml", "json"), default="yaml", help="default: yaml")
    add_cluster(parser)


def run_cluster_autoscaler(args: argparse.Namespace) -> int:
    from slackwater.app.converters.cluster_autoscaler import from_cluster_autoscaler

    _check_provider(args)
    if args.provider == "externalgrpc" and not args.address:
        raise CommandFailed(["--provider externalgrpc: got no address, want --address HOST:PORT, where its server is"])
    return _written(
        args, lambda: from_cluster_autoscaler(_objects(args, WORKLOADS), provider=args.provider, address=args.address)
    )


def run_karpenter(args: argparse.Namespace) -> int:
    from slackwater.app.converters.karpenter import READING, from_karpenter

    _check_provider(args, READING)
    return _written(args, lambda: from_karpenter(_objects(args, KARPENTER), provider=args.provider or READING))


def _check_provider(args: argparse.Namespace, *more: str) -> None:
    from slackwater.app.converters.cluster_autoscaler import PROVIDERS

    if args.provider and args.provider not in (known := (*more, *PROVIDERS)):
        raise CommandFailed([f"--provider: got {args.provider}, want one of {', '.join(known)}"])


def _objects(args: argparse.Namespace, paths: tuple[str, ...]) -> "list[Manifest]":
    """The objects of the files; without files, those of the cluster at these paths of the API."""
    from slackwater.app.converters.workloads import manifests
    from slackwater.app.offline.files import documents
    from slackwater.app.offline.objects import ClusterError
    from slackwater.app.offline.sources import file_bytes

    if not args.files:
        return with_cluster(args, lambda client: fetched(client, paths), instead="FILE")
    found: list[Manifest] = []
    for path in args.files:
        try:
            found += manifests(documents(file_bytes(path)))
        except (ClusterError, ValueError) as err:
            raise CommandFailed([f"{name_of(path)}: {err}"]) from err
    return found


async def fetched(client: "KubeClient", paths: tuple[str, ...]) -> "list[Manifest]":
    from slackwater.adapters.kube.config_maps import PRIORITIES_CONFIG_MAP
    from slackwater.adapters.kube.errors import StatusError
    from slackwater.adapters.kube.objects import ApiObjects
    from slackwater.app.converters.workloads import manifests

    objects, found = ApiObjects(client), list["Manifest"]()
    for path in paths:
        fields = f"metadata.name={PRIORITIES_CONFIG_MAP}" if path.endswith("configmaps") else ""
        try:
            found += [each async for page in objects.pages(path, fields=fields) for each in manifests([page])]
        except StatusError as err:
            if err.code != _NOT_FOUND or path == paths[0]:
                raise
    return found


def _written(args: argparse.Namespace, convert: "Callable[[], Converted]") -> int:
    from slackwater.app.converters.draft import ConversionError

    try:
        converted = convert()
    except ConversionError as err:
        raise CommandFailed([str(err)]) from err
    if args.format == "json":
        print(json.dumps(converted.rows(), indent=2))
    if converted.refused:
        raise CommandFailed([f"{each}" for each in converted.refused], code=BAD_INPUT)
    titles = {"to-do": "left to do", "no-counterpart": "without a counterpart"}
    for each in converted.findings:
        if each.given and (title := titles.get(each.verdict)):
            print(f"slackwater: {title}: {each}", file=sys.stderr)
    if args.target is not None:
        try:
            Path(args.target).write_text(converted.text, encoding="utf-8")
        except OSError as err:
            raise CommandFailed([f"{args.target}: {err.strerror or err}, want a file that can be written"]) from err
    elif args.format == "yaml":
        print(converted.text, end="")
    return 0
