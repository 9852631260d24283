"""Who wants placeholders like pods: marked workloads, marked pods and CapacityBuffers, looked through in the planning thread.

What flows through: the mirror's pods and the objects that ask -> how many placeholders like which pod. A chunk is like the
newest pod of what makes them where there is one (but of a Deployment, whose pods others make), else like the template's.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from slackwater.controllers.slack.buffers import Resolved, resolved
from slackwater.controllers.slack.marked import marked
from slackwater.controllers.slack.mirrored import Mirrored
from slackwater.controllers.slack.slo_sizing import NO_PROMISES, Promised
from slackwater.model.buffers import Askers
from slackwater.model.eviction_facts import Owner
from slackwater.model.objects import Pod
from slackwater.snapshot.replica import Mirror


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """`buffers` and `promises` with what each comes to; `problems` are annotations that cannot be read, and the like."""

    mirrored: tuple[Mirrored, ...] = ()
    buffers: tuple[Resolved, ...] = ()
    promises: Promised = NO_PROMISES
    problems: tuple[str, ...] = ()

    def with_promises(self, promises: Promised) -> "Asking":
        """The same, and room for what was promised."""
        mirrored, problems = (*self.mirrored, *promises.mirrored), (*self.problems, *promises.problems)
        return replace(self, mirrored=mirrored, promises=promises, problems=problems)


def asking_now(mirror: Mirror, askers: Askers) -> Asking:
    """Of all that the mirror holds."""
    return asked_by([*(tenant.pod for tenant in mirror.everyone()), *mirror.pending.values()], askers)


def asked_by(pods: Iterable[Pod], askers: Askers) -> Asking:
    """Of these pods."""
    owners = {(each.namespace, each.ref) for each in askers.marked} | set(askers.workloads)
    carrying: list[Pod] = []
    newest: dict[tuple[str, Owner], Pod] = {}
    for pod in pods:
        ties = pod.ties
        if ties.slack and not pod.ended and not pod.deleting:
            carrying.append(pod)
        if owners and ties.owner is not None and (key := (pod.key.namespace, ties.owner)) in owners:
            _note(newest, key, pod)
    buffers = resolved(askers, newest)
    found = marked(askers.marked, carrying, newest)
    mirrored = [each.mirrored for each in buffers if each.mirrored is not None]
    return Asking(mirrored=(*found.mirrored, *mirrored), buffers=tuple(buffers), problems=found.problems)


def _note(newest: dict[tuple[str, Owner], Pod], key: tuple[str, Owner], pod: Pod) -> None:
    known = newest.get(key)
    if not pod.ended and (known is None or (pod.created_at, pod.key) > (known.created_at, known.key)):
        newest[key] = pod
