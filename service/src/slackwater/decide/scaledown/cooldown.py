"""Until when a group may not shrink: for a while after it has grown, shrunk, or failed to shrink. Other groups go on."""

from dataclasses import dataclass

from slackwater.model.ids import UnixTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Seconds after each."""

    after_add: float = 600.0
    after_delete: float = 0.0
    after_failure: float = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """When each last happened to a group; None: not that we know."""

    added_at: UnixTime | None = None
    deleted_at: UnixTime | None = None
    failed_at: UnixTime | None = None


def cooling_until(history: GroupHistory, delays: Delays) -> UnixTime | None:
    """None where nothing holds the group back."""
    times = (
        (history.added_at, delays.after_add),
        (history.deleted_at, delays.after_delete),
        (history.failed_at, delays.after_failure),
    )
    ends = [at + delay for at, delay in times if at is not None and delay > 0]
    return UnixTime(max(ends)) if ends else None
