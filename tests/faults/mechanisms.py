"""Mechanisms of the service that can be broken on purpose, from outside: what the simulation is worth is that it notices.

Each is taken out by replacing one method while a run lasts. Deliberately absent: switches in the service.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import msgspec
import numpy as np
from msgspec import structs

from slackwater.adapters.kube.drain_writer import DrainWriter
from slackwater.adapters.kube.watch_lines import KnownObjects
from slackwater.cluster.holds import Holds
from slackwater.cluster.vertical_pods import VerticalPods
from slackwater.controllers.permits.persisted_permits import PersistedPermits
from slackwater.controllers.placement.binding import Binding
from slackwater.controllers.policy import Policy
from slackwater.controllers.preemption.state import Preemptions
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.columns import Rows
from slackwater.model.effects import Evict
from slackwater.model.events import BindEnded
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.model.permits import PermitAnswer, PermitDecision
from slackwater.model.pod_resources import PermitQuestion, PodResources, certain_resources
from slackwater.model.reasons import Reason
from slackwater.model.resources import Amounts
from slackwater.model.vertical import Vertical
from slackwater.ports.protocols import Outcome
from slackwater.runtime.flows import filter as placing
from slackwater.runtime.flows import permits
from slackwater.runtime.flows.permits import PermitFlow
from slackwater.runtime.pod_lifecycle import PodLifecycle
from slackwater.runtime.restore import _Restoring
from slackwater_protocol.units import Bytes, MilliCpu
from tests.faults.wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """A mechanism, and the `law` that notices its loss.

    `patches`: class or module, function, and what takes its place, given it. `seed`: where the search for a run that notices
    starts; a run of that seed noticed when it was written down, and one of the next does whatever has changed since.
    """

    name: str
    law: str
    what: str
    patches: tuple[tuple[Any, str, Callable[[Any], Any]], ...]
    seed: int = 1

    def __post_init__(self) -> None:
        """Raises LookupError: a function that was renamed would break nothing."""
        for owner, function, _ in self.patches:
            if function not in vars(owner):
                raise LookupError(f"mechanism {self.name}: {owner.__name__} has no function {function}")


def _answers(value: Callable[[], Any]) -> Callable[[Any], Any]:
    """A method that answers this, whatever it is asked."""
    return lambda _original: lambda *_args, **_kwargs: value()


def _without_conditions(_original: Any) -> Any:
    def sent(_wire: Wire, body: bytes | None) -> bytes | None:
        if body is None:
            return None
        found = msgspec.json.decode(body)
        if isinstance(found, list):
            return msgspec.json.encode([step for step in found if step["op"] != "test"])
        for part in (found.get("metadata"), found.get("deleteOptions", {}).get("preconditions"), found.get("preconditions")):
            for name in ("uid", "resourceVersion"):
                if isinstance(part, dict):
                    part.pop(name, None)
        return msgspec.json.encode(found)

    return sent


def _by_force(original: Any) -> Any:
    async def evict(self: DrainWriter, effect: Evict, deadline: float) -> Outcome:
        return cast("Outcome", await original(self, structs.replace(effect, force=True), deadline))

    return evict


def _unknown_is_no(original: Any) -> Any:
    def ended(self: Binding, event: BindEnded, policy: Policy, now: Instant) -> Any:
        no = structs.replace(event, outcome="unreachable") if event.outcome == "unknown" else event
        return original(self, no, policy, now)

    return ended


def _as_used(_original: Any) -> Any:
    def restored(_pod: Pod, vertical: Vertical, _text: str | None, _scheduler_name: str) -> PodResources:
        return certain_resources(vertical)

    return staticmethod(restored)


def _more_than_asked(original: Any) -> Any:
    def answer(self: PermitFlow, decided: PermitDecision) -> Any:
        found = original(self, decided)
        return replace(found, permit=found.permit.plus(found.permit)) if isinstance(found, PermitAnswer) else found

    return answer


def _endless_room(original: Any) -> Any:
    def settle(pod_resources: PodResources, _free: Amounts, question: PermitQuestion, **more: Any) -> PodResources:
        return cast("PodResources", original(pod_resources, pod_resources.max, question, **more))

    return settle


_PLENTY: Final = Amounts(MilliCpu(2**40), Bytes(2**60))


def _all_pass(_original: Any) -> Any:
    def judge(_need: Amounts, _columns: object, rows: Rows) -> Any:
        return np.zeros(len(rows), np.uint8)

    return judge


_ALL: Final = (
    Mechanism(
        name="room-at-bind",
        law="S2",
        what="a bind looks whether there is still room",
        patches=((Binding, "_lacking", _answers(lambda: Reason.OK)), (placing, "judge_ledger", _all_pass)),
    ),
    Mechanism(
        name="gate",
        law="L2",
        what="a preemptor's gate opens when its victims are gone, or when that fails",
        seed=2,
        patches=((Preemptions, "_open", _answers(lambda: None)), (Preemptions, "_fail", _answers(lambda: None))),
    ),
    Mechanism(
        name="hold-expiry",
        law="L5",
        what="a hold that nobody used ends",
        seed=19,
        patches=((Holds, "expire", _answers(list)),),
    ),
    Mechanism(
        name="budget",
        law="S5",
        what="whoever empties a node counts the budgets of its pods, and has them evicted, not deleted",
        seed=98,
        patches=(
            (Disruptions, "allows", _answers(lambda: True)),
            (Disruptions, "allow_all", _answers(lambda: True)),
            (DrainWriter, "_evict", _by_force),
        ),
    ),
    Mechanism(
        name="restart",
        law="S1",
        what="a restart counts what is on record, not what is used",
        seed=27,
        patches=((VerticalPods, "_restored_resources", _as_used),),
    ),
    Mechanism(
        name="unknown-outcome",
        law="S1",
        what="a bind without an answer may have happened",
        seed=78,
        patches=((Binding, "ended", _unknown_is_no),),
    ),
    Mechanism(
        name="preconditions",
        law="S8",
        what="every write names the object that it is meant for",
        seed=2,
        patches=((Wire, "sent", _without_conditions),),
    ),
    Mechanism(
        name="write-ahead",
        law="S1",
        what="a permit is answered when its ceiling is on record",
        seed=2,
        patches=((PersistedPermits, "safe", _answers(lambda: _PLENTY)),),
    ),
    Mechanism(
        name="growth",
        law="S2",
        what="growth ends at what is left of the node",
        seed=13,
        patches=((permits, "settled", _endless_room),),
    ),
    Mechanism(
        name="relist",
        law="L5",
        what="a new list tells what went while nobody watched",
        seed=8,
        patches=((KnownObjects, "end_list", _answers(lambda: iter(()))),),
    ),
    Mechanism(
        name="foreign-binds",
        law="L5",
        what="pods that others bound count like our own",
        seed=4,
        patches=((PodLifecycle, "_count", _answers(lambda: None)),),
    ),
    Mechanism(
        name="permit-bounds",
        law="S3",
        what="a permit is never more than was asked",
        seed=2,
        patches=((PermitFlow, "answer", _more_than_asked),),
    ),
    Mechanism(
        name="dump",
        law="S9",
        what="a dump holds the holds",
        seed=4,
        patches=((_Restoring, "_hold", _answers(lambda: None)),),
    ),
)

MECHANISMS: Final = {mechanism.name: mechanism for mechanism in _ALL}


@contextmanager
def broken(name: str) -> Iterator[None]:
    """Breaks the mechanism of this name, none where it is empty."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        for class_, method, replacement in MECHANISMS[name].patches if name else ():
            undo.append((class_, method, vars(class_)[method]))
            setattr(class_, method, replacement(getattr(class_, method)))
        yield
    finally:
        for class_, method, original in undo:
            setattr(class_, method, original)
