"""The names of objects that complete a command line: pods, workloads, nodes, node groups, namespaces, contexts.

kubectl runs the completion, so kubectl is asked for what it completes by itself, in the same cluster and with the same account
(`kubectl __complete`, the interface that its shells' scripts use), and for the autoscaler's status, which names the node
groups. It has `PATIENCE_SECONDS`. Whatever goes wrong, such as a right that is lacking, there are no names and no message,
since somebody is typing.
"""

import argparse
import subprocess
from typing import Final

PATIENCE_SECONDS: Final = 1.0
_GROUPS: Final = ("configmap", "slackwater-autoscaler-status", "--namespace=kube-system", "--output=jsonpath={.data.status}")
#: The kinds whose names are those of pods.
_PODS: Final = frozenset({"permit", "migration", "gate"})


def names_of(kind: str, begun: str, typed: argparse.Namespace) -> list[str]:
    """The names of the objects of a kind that begin with `begun`; of kind "context" the contexts of the kubeconfig. `typed`:
    kubeconfig, context and namespace as typed so far, or None."""
    options = [f"--{name}={value}" for name in ("kubeconfig", "context") if (value := getattr(typed, name)) is not None]
    if kind == "group":
        return sorted(_listed(_said("get", *options, *_GROUPS)))
    if kind == "context":
        lines = _said("__complete", *options, "config", "use-context", begun)
    else:
        namespace = [] if typed.namespace is None else [f"--namespace={typed.namespace}"]
        lines = _said("__complete", *options, *namespace, "get", "pods" if kind in _PODS else f"{kind}s", begun)
    return [line.partition("\t")[0] for line in lines.splitlines() if line and not line.startswith(":")]


def _said(*arguments: str) -> str:
    """What kubectl prints; nothing if it fails, or takes too long."""
    try:
        done = subprocess.run(
            ["kubectl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace")


def _listed(status: str) -> list[str]:
    """The names of the node groups in the autoscaler's status, which is YAML."""
    from slackwater.adapters.kube.yaml_text import YamlProblem, yaml_tree

    try:
        tree = yaml_tree(status)
    except YamlProblem:
        return []
    groups = tree.get("nodeGroups") if isinstance(tree, dict) else None
    return [str(each["name"]) for each in groups or () if isinstance(each, dict) and "name" in each]
