"""`slackwater explain deployment|statefulset|daemonset|replicaset|job`: says why a workload is short of pods.

Its objects are read from the API server or a file, with the rights of whoever asks. Its pods without a node are explained as by
`explain pod`: by the running service, or without one from the objects of the API.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from slackwater.app.progress import Progress, shown
from slackwater.cli.commands.cluster import with_cluster
from slackwater.cli.commands.output import NOT_FOUND, CommandFailed
from slackwater.cli.commands.simulate_common import source_name

if TYPE_CHECKING:
    from slackwater.app.offline.workload_explained import WorkloadExplanation
    from slackwater.app.offline.workload_objects import WorkloadObjects

#: Answers about a pod, given the arguments of `explain pod`. Raises `CommandFailed`.
Ask = Callable[[argparse.Namespace], Mapping[str, Any]]


def workload_answer(args: argparse.Namespace, ask: Ask) -> "WorkloadExplanation":
    """The explanation of the workload. Raises `CommandFailed`."""
    import msgspec

    from slackwater.app.offline import ClusterError
    from slackwater.app.offline.workload_explained import asked, explain_workload, pods_of
    from slackwater.explain.findings import Explanation

    def explanation(name: str) -> Explanation | str:
        try:
            return msgspec.convert(ask(_about_pod(args, name)), Explanation)
        except CommandFailed as failed:
            return "; ".join(failed.lines)
        except msgspec.ValidationError as err:
            return f"got no explanation of this version: {err}"

    try:
        with shown(forced=args.progress) as progress:
            objects = _objects(args, progress)
        pods = pods_of(objects)
        waiting, notes = asked(pods.pending, explanation)
        return explain_workload(objects, pods, waiting, notes)
    except ClusterError as err:
        raise CommandFailed([f"{source_name(args)}: {err}"], code=NOT_FOUND) from err


def _objects(args: argparse.Namespace, progress: Progress) -> "WorkloadObjects":
    from slackwater.app.offline.workload_objects import fetch_workload, load_workload
    from slackwater.model.ids import PodKey

    key = PodKey(*args.name.split("/"))
    if args.cluster == "-":
        raise CommandFailed(["--cluster: got -, want a file: the workload and its pods are read in turn"])
    if args.cluster is not None:
        progress.step(f"reading {args.cluster}")
        return load_workload(args.cluster, args.kind, key)
    work = partial(fetch_workload, what=args.kind, key=key, report=progress.step)
    return with_cluster(args, work, instead="--cluster F")


def _about_pod(args: argparse.Namespace, name: str) -> argparse.Namespace:
    """The arguments of `explain pod` for a pod in the workload's namespace."""
    about = copy(args)
    about.kind, about.name = "pod", f"{args.name.partition('/')[0]}/{name}"
    return about


def counts(facts: Mapping[str, Any]) -> Iterator[str]:
    """The workload's pods in one line; none about another object."""
    if "missing" not in facts:
        return
    said = [f"{facts['wanted']} wanted", f"{facts['pods']} there", f"{facts['ready']} ready"]
    said += [f"{facts[what]} {what}" for what in ("pending", "missing") if facts[what]]
    yield f"pods: {', '.join(said)}"


def titles(waiting: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A title for each group of pods that have no node."""
    for each in waiting:
        more = f" and {each['count'] - 1} more" if each["count"] > 1 else ""
        yield f"pod {each['pods'][0]}{more}", each
