"""Had each migration its reason? Worked out afterwards, from what was looked at and from what agents asked meanwhile.

A migration that one look shows and the look before does not was decided between the two. What a pod weighed then lies between
what the looks show and what its agent asked in that time; so there is a most that the pressure can have been, however far
apart the looks are, also where the service died between them. A migration for which even that most is no reason had none.
The formula is the reference's (section 2.6), in words of our own. Deliberately absent: any waiting.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

RESOURCES: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One request of a pod's agent: milliCPU and bytes, and when it was on its way (seconds)."""

    pod: str
    asked: Mapping[str, int]
    begun_at: float
    ended_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one /dumpstate showed of the nodes of a test. `process` is the service's; `written` what is on record of pods."""

    process: int
    begun_at: float
    ended_at: float
    nodes: Mapping[str, Json]
    pods: Mapping[str, Json]  #: by UID
    migrations: Mapping[str, Json]  #: by name
    written: Mapping[str, Json]  #: by UID of the pod


def short(dump: Json, nodes: frozenset[str], process: int, begun_at: float, ended_at: float) -> Look:
    """What is looked at later."""
    return Look(
        process=process,
        begun_at=begun_at,
        ended_at=ended_at,
        nodes={node["name"]: node for node in dump["nodes"] if node["name"] in nodes},
        pods={pod["uid"]: pod for pod in dump["pods"] if pod["node"] in nodes},
        migrations={move["name"]: move for move in dump["migrations"]},
        written={entry["uid"]: entry for entry in dump["permits"] if entry["permit"] is not None},
    )


def began(looks: Sequence[Look]) -> Iterator[tuple[Look, Look, list[Json]]]:
    """Two looks, one after the other, and the migrations that began between them."""
    for before, after in pairwise(looks):
        new = [move for name, move in after.migrations.items() if name not in before.migrations and move["pod"] in after.pods]
        if new:
            yield before, after, new


def without_need(looks: Sequence[Look], wishes: Sequence[Wish]) -> Iterator[str]:
    """A sentence for each migration that no pressure can have asked for, or that began beside another of its machine."""
    for look in looks:
        machines = [move["machine"] for move in look.migrations.values()]
        yield from (f"{machine} migrates twice at once" for machine in set(machines) if machines.count(machine) > 1)
    for before, after, new in began(looks):
        meanwhile = [w for w in wishes if w.begun_at <= after.ended_at and w.ended_at >= before.begun_at]
        for source in sorted({move["source"] for move in new}):
            leaving = [move for move in new if move["source"] == source]
            most = most_pressure(source, before, after, {move["pod"] for move in leaving}, meanwhile)
            if not any(amount > 0 for amount in most.values()):
                names = ", ".join(move["machine"] for move in leaving)
                yield f"{names} left {source} without need: {most} at most, {before.nodes[source]}, {after.nodes[source]}"


def most_pressure(node: str, before: Look, after: Look, leaving: set[str], wishes: Iterable[Wish]) -> dict[str, int]:
    """The most that can have been above the watermark, beyond what other migrations relieve, when the last of `leaving` was
    chosen: the others of them relieved the node already. 0 or less where there was no reason at all."""
    asked: dict[str, list[Mapping[str, int]]] = {}
    for wish in wishes:
        asked.setdefault(wish.pod, []).append(wish.asked)
    uids = {uid for look in (before, after) for uid, pod in look.pods.items() if pod["node"] == node}
    most, crowded = {}, False
    for resource in RESOURCES:
        weights = {uid: _weights(uid, resource, node, (before, after), asked) for uid in uids}
        watermark = min(look.nodes[node][resource]["watermark"] for look in (before, after))
        crowded |= sum(weight.reserved for weight in weights.values()) > watermark
        staying = sum(weight.unrelieved for uid, weight in weights.items() if uid not in leaving)
        most[resource] = staying + max(weights[uid].whole for uid in leaving) - watermark
    return most if crowded else dict.fromkeys(RESOURCES, 0)


class _Weights(NamedTuple):
    """The most that a pod can have counted for on its node between two looks."""

    reserved: int
    whole: int  #: Reserved - Buffer + CapacityPressure
    unrelieved: int  #: what of that no migration accounted for


def _weights(
    uid: str, resource: str, node: str, looks: tuple[Look, Look], asked: Mapping[str, Sequence[Mapping[str, int]]]
) -> _Weights:
    before, after = looks
    pods = [pod for look in looks if (pod := look.pods.get(uid)) is not None and pod["node"] == node]
    shown = [pod[resource] for pod in pods]
    whole = [numbers["reserved"] - numbers["buffer"] + numbers["capacityPressure"] for numbers in shown]
    unrelieved = [amount - numbers["accountedFor"] for amount, numbers in zip(whole, shown, strict=True)]
    reserved = [numbers["reserved"] for numbers in shown]
    between = [wish[resource] for wish in asked.get(pods[0]["name"], ())]
    if before.process != after.process and uid in before.written:  # a new process begins with what is on record
        between.append(before.written[uid]["permit"][resource])
        reserved.append(before.written[uid]["limit"][resource])
    stays = not all(numbers["accountedFor"] for numbers in shown)
    return _Weights(max(reserved + between), max(whole + between), max(unrelieved + (between if stays else [])))
