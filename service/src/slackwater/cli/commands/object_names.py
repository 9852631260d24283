"""The objects that people name on the command line: kinds by kubectl's names for them, and namespaces.

    explain po web-2                # in the namespace of the kubeconfig's context
    explain deploy/web -n shop      # as kubectl prints names, and with its option
    explain pod shop/web-2          # as our answers print names

`add_object` adds the arguments, `settle` reads them. `canonical` reads a kind for completion.
"""

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from slackwater.cli.commands.cluster import kubeconfig_of
from slackwater.cli.commands.output import CommandFailed

#: For each kind the other words that mean it: kubectl's short names and plurals.
_WORDS: Final = {
    "pod": ("po", "pods"),
    "node": ("no", "nodes"),
    "group": ("ng", "groups", "nodegroup", "nodegroups"),
    "deployment": ("deploy", "deployments"),
    "statefulset": ("sts", "statefulsets"),
    "daemonset": ("ds", "daemonsets"),
    "replicaset": ("rs", "replicasets"),
    "job": ("jobs",),
    "permit": ("permits",),
    "migration": ("migrations",),
    "gate": ("gates",),
}
KINDS: Final = tuple(_WORDS)
_KIND_OF: Final = {word: kind for kind, words in _WORDS.items() for word in (kind, *words)}
_WITHOUT_NAMESPACE: Final = frozenset({"node", "group"})
_DEFAULT: Final = "default"
#: Where a Pod finds the namespace that it is in.
_OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class _Kinds(tuple[str, ...]):
    """The kinds of a command, with which `KIND/NAME` may begin too."""

    def __contains__(self, value: object) -> bool:
        return super().__contains__(str(value).partition("/")[0])


def canonical(text: str) -> str:
    """`po/web` as `pod/web`. A kind may name its API group, as in `deployment.apps/web`. Unknown kinds stay as they are."""
    kind, slash, name = text.partition("/")
    word = kind.lower().partition(".")[0]
    return f"{_KIND_OF.get(word, kind)}{slash}{name}"


def add_object(parser: argparse.ArgumentParser, kinds: Iterable[str], *, optional: bool = False) -> None:
    """Adds the arguments that name an object of one of these kinds, and its namespace. `optional`: it may be left out."""
    kinds = _Kinds(kinds)
    short = (f"{kind} ({_WORDS[kind][0]})" if len(_WORDS[kind]) > 1 else kind for kind in kinds)
    words = f"{', '.join(short)}; KIND/NAME is fine too"
    nargs = "?" if optional else None
    parser.add_argument("kind", metavar="KIND", nargs=nargs, type=canonical, choices=kinds, help=words)
    parser.add_argument("name", metavar="NAME", nargs="?", help="NAME, or NAMESPACE/NAME")
    parser.add_argument(
        "-n", "--namespace", metavar="NS", help="the object's namespace (default: that of the kubeconfig's context)"
    )


def settle(command: str, args: argparse.Namespace) -> None:
    """Sets `kind` and `name` of the arguments to what they mean: `name` is NAMESPACE/NAME for a kind with namespaces. Raises
    `CommandFailed` for a name of another form."""
    kind, _, rest = args.kind.partition("/")
    given = [each for each in (rest, args.name) if each]
    pieces = given[0].split("/") if given else []
    namespaced = kind not in _WITHOUT_NAMESPACE
    if len(given) != 1 or not 1 <= len(pieces) <= 1 + namespaced or not all(pieces):
        want = "want NAME or NAMESPACE/NAME" if namespaced else "want a name without a slash"
        raise CommandFailed([f"{command} {kind}: got {repr(' '.join(given)) if given else 'no name'}, {want}"])
    if len(pieces) == 2 and args.namespace not in (None, pieces[0]):
        raise CommandFailed([f"--namespace: got {args.namespace} and {given[0]}, want one of them"])
    if namespaced and len(pieces) == 1:
        pieces = [args.namespace or _default_namespace(args), *pieces]
    args.kind, args.name = kind, "/".join(pieces)


def _default_namespace(args: argparse.Namespace) -> str:
    """The namespace of the kubeconfig's context. For a file, of which no context is known, kubectl's own default."""
    if getattr(args, "cluster", None) is not None:
        return _DEFAULT
    try:
        kubeconfig = kubeconfig_of(args)
    except CommandFailed:
        return _DEFAULT  # no cluster is known, but a service may be
    if kubeconfig is None:
        return _OWN_NAMESPACE.read_text(encoding="utf-8").strip() if _OWN_NAMESPACE.exists() else _DEFAULT
    return context_namespace(kubeconfig, args.context) or _DEFAULT


def context_namespace(kubeconfig: str, context: str | None) -> str | None:
    """The namespace of the context, or of the current one if `context` is None; None if it names none, or if the files cannot
    be read: who connects says what is wrong with them. `kubeconfig`: one file, or several as in $KUBECONFIG. As for kubectl,
    the first file that says something counts."""
    files = list(_read(kubeconfig))
    context = context or next(
        (named for file in files if isinstance(named := file.get("current-context"), str) and named), None
    )
    for file in files:
        for entry in file.get("contexts") or ():
            if isinstance(entry, dict) and entry.get("name") == context and isinstance(inner := entry.get("context"), dict):
                return str(inner["namespace"]) if inner.get("namespace") else None
    return None


def _read(kubeconfig: str) -> Iterator[Mapping[str, Any]]:
    from slackwater.adapters.kube.yaml_text import YamlProblem, yaml_tree

    for path in filter(None, kubeconfig.split(os.pathsep)):
        try:
            found = yaml_tree(Path(path).expanduser().read_text(encoding="utf-8"))
        except (OSError, UnicodeError, YamlProblem):
            continue
        if isinstance(found, dict):
            yield found
