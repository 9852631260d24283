"""Two configurations -> which of the changed keys take effect at once, and which wait for a restart.

Flows through: the old and the new settings of a reload. Each key is listed here with what its change needs; a key that
is not listed is an error that the tests find. Deliberately absent: applying anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from slackwater.app.settings.model import Settings
from slackwater.app.settings.problems import Steps, json_path
from slackwater.app.settings.section import Section

SectionT = TypeVar("SectionT", bound=Section)

#: `live`: read again for each decision. `restart`: read once, at start. `scheduler`: also written into kube-scheduler's
#: file, so that file has to be generated again and kube-scheduler restarted.
Needs = Literal["live", "restart", "scheduler"]

#: The longest prefix of a key's path counts.
NEEDS: Final[dict[Steps, Needs]] = {
    ("apiVersion",): "restart",
    ("kind",): "restart",
    ("schedulerName",): "scheduler",
    ("featureGates",): "restart",
    ("featureGates", "Steering"): "scheduler",
    ("leaderElection",): "scheduler",
    ("listeners",): "restart",
    ("listeners", "extender"): "scheduler",
    ("extender", "weight"): "scheduler",
    ("extender", "bind"): "scheduler",
    ("extender", "httpTimeout"): "scheduler",
    ("extender", "schedulerTLS"): "scheduler",
    ("extender", "maxBodyBytes"): "live",
    ("extender", "holdTimeout"): "live",
    ("extender", "bindBackoff"): "live",
    ("nodes",): "live",
    ("vertical",): "live",
    ("migration",): "live",
    ("preemption",): "live",
    ("steering",): "live",
    ("steering", "percentageOfNodesToScore"): "scheduler",
    ("steering", "gates"): "restart",
    ("steering", "maxConcurrentWrites"): "restart",
    ("autoscaler",): "restart",
    ("kube",): "restart",
    ("audit",): "restart",
    ("recording",): "restart",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveChange:
    """`live` and `restart` are the changed keys as dotted paths, in the file's order, none in both.

    `scheduler` is the part of `restart` that kube-scheduler's file says too. `settings` is what holds from now on: the
    old settings with the live keys of the new ones.
    """

    live: tuple[str, ...]
    restart: tuple[str, ...]
    scheduler: tuple[str, ...]
    settings: Settings


def live(old: Settings, new: Settings) -> LiveChange:
    """Splits what differs between `old` and `new`."""
    changed = [(steps, needs(steps)) for steps in _differences(old, new, ())]
    return LiveChange(
        live=tuple(json_path(steps) for steps, need in changed if need == "live"),
        restart=tuple(json_path(steps) for steps, need in changed if need != "live"),
        scheduler=tuple(json_path(steps) for steps, need in changed if need == "scheduler"),
        settings=_merged(old, new, ()),
    )


def needs(steps: Steps) -> Needs:
    """What a change of this key needs. KeyError for a key that nobody has decided on."""
    for length in range(len(steps), 0, -1):
        if steps[:length] in NEEDS:
            return NEEDS[steps[:length]]
    raise KeyError(steps)


def _differences(old: Section, new: Section, at: Steps) -> Iterator[Steps]:
    """Sections are compared key by key; lists, mappings and sections that come or go count as one key."""
    for name, field in type(old).model_fields.items():
        before, after = getattr(old, name), getattr(new, name)
        steps = (*at, field.alias or name)
        if isinstance(before, Section) and isinstance(after, Section):
            yield from _differences(before, after, steps)
        elif before != after:
            yield steps


def _merged(old: SectionT, new: SectionT, at: Steps) -> SectionT:
    """`old` with the keys of `new` that are live."""
    values: dict[str, Any] = {}
    for name, field in type(old).model_fields.items():
        before, after = getattr(old, name), getattr(new, name)
        steps = (*at, field.alias or name)
        if isinstance(before, Section) and isinstance(after, Section):
            values[name] = _merged(before, after, steps)
        elif before != after and needs(steps) == "live":
            values[name] = after
    return old.model_copy(update=values)
