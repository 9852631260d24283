"""The events by which the state machine learns how API calls ended."""

from slackwater.model.effects import (
    Activate,
    CreateMigration,
    DeleteMigration,
    DeleteVictim,
    Effect,
    Evict,
    MarkNode,
    UnmarkNode,
    WritePermit,
    WritePreempting,
)
from slackwater.model.events import (
    ActivationLost,
    Event,
    EvictionEnded,
    EvictionOutcome,
    MigrationDeleteEnded,
    MigrationNotStarted,
    NodeMarked,
    NodeUnmarked,
    PermitNotWritten,
    PodGone,
    PreemptingNotWritten,
    PreemptingWritten,
    VictimEnded,
)
from slackwater.ports.protocols import Outcome


def given_up(effect: Effect, outcome: Outcome) -> Event | None:
    """The event for an effect that is not tried again although its result is not certain, because its deadline has passed. None
    if the state machine need not know."""
    match effect:
        case Activate(uid, key, why):
            return ActivationLost(uid, key, why)
        case WritePermit():
            return PermitNotWritten(effect.pod, outcome.detail)
        case CreateMigration():
            return MigrationNotStarted(effect.uid, outcome.detail)
        case DeleteMigration(_, key):
            return MigrationDeleteEnded(key, deleted=False)
        case _:
            return None


def preemption_ended(effect: Effect, outcome: Outcome) -> Event | None:
    """The event for the end of an API call of a preemption. None if the effect is not part of a preemption, or if
    `outcome.event` (`PodGone`) already reports that the victim is gone."""
    match effect:
        case WritePreempting(uid, _, text):
            done = outcome.verdict == "done"
            return PreemptingWritten(uid, text) if done else PreemptingNotWritten(uid, text, outcome.detail)
        case DeleteVictim(uid):
            if outcome.verdict == "done":
                return None if isinstance(outcome.event, PodGone) else VictimEnded(uid, "accepted", "")
            return VictimEnded(uid, "refused" if outcome.verdict == "refused" else "unreachable", outcome.detail)
        case _:
            return None


def drain_ended(effect: Effect, outcome: Outcome) -> Event | None:
    """The event for the end of an API call of a drain. None if the effect is not part of a drain, or if `outcome.event` is this
    event already."""
    done = outcome.verdict == "done"
    match effect:
        case MarkNode():
            return NodeMarked(effect.name, effect.taint.key, done, outcome.detail)
        case UnmarkNode():
            return NodeUnmarked(effect.name, effect.taint_key, done, outcome.detail)
        case Evict() if not isinstance(outcome.event, EvictionEnded):
            how: EvictionOutcome = "gone" if isinstance(outcome.event, PodGone) else "accepted" if done else "unreachable"
            how = "refused" if outcome.verdict == "refused" else how
            return EvictionEnded(effect.uid, effect.node, how, outcome.detail)
        case _:
            return None
