"""Decides which changes of the configuration take effect at once, and which wait for a restart.

In: the settings in force and the reloaded ones. Out: the changed keys of each kind, and the settings to put in force. `NEEDS`
lists every key with what a change of it needs; a test finds keys that are not listed. The caller applies the result.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from slackwater.app.settings.model import Settings
from slackwater.configuration.problems import Steps, json_path
from slackwater.configuration.section import Section

SectionT = TypeVar("SectionT", bound=Section)

#: `live`: read again for each decision. `restart`: read once, at start. `scheduler`: also written into kube-scheduler's
#: file, so that file has to be generated again and kube-scheduler restarted.
Needs = Literal["live", "restart", "scheduler"]

#: What a change of a key needs. The longest prefix of the key's path decides.
NEEDS: Final[dict[Steps, Needs]] = {
    ("apiVersion",): "restart",
    ("kind",): "restart",
    ("schedulerName",): "scheduler",
    ("scheduler",): "restart",
    ("featureGates",): "restart",
    ("leaderElection",): "scheduler",
    ("listeners",): "restart",
    ("listeners", "extender"): "scheduler",
    ("extender", "weight"): "scheduler",
    ("extender", "percentageOfNodesToScore"): "scheduler",
    ("extender", "bind"): "scheduler",
    ("extender", "ignorable"): "scheduler",
    ("extender", "httpTimeout"): "scheduler",
    ("extender", "schedulerTLS"): "scheduler",
    ("extender", "schedulerConfig"): "restart",
    ("extender", "maxBodyBytes"): "live",
    ("extender", "holdTimeout"): "live",
    ("extender", "bindBackoff"): "live",
    ("nodes",): "live",
    ("vertical",): "live",
    ("migration",): "live",
    ("preemption",): "live",
    ("autoscaler",): "restart",
    ("kube",): "restart",
    ("audit",): "restart",
    ("recording",): "restart",
    ("history",): "restart",
    ("explain",): "restart",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChange:
    """A change of the configuration, split by what its keys need. `live` and `restart` are the changed keys as dotted paths, in
    the file's order; no key is in both.

    `scheduler` is the part of `restart` that is also in kube-scheduler's file. `settings` are the settings to put in force: the
    old ones with the changed live keys.
    """

    live: tuple[str, ...]
    restart: tuple[str, ...]
    scheduler: tuple[str, ...]
    settings: Settings


def live(old: Settings, new: Settings) -> SettingsChange:
    """Splits the differences between `old` and `new` by what they need: nothing (live), or a restart."""
    changed = [(steps, needs(steps)) for steps in _differences(old, new, ())]
    return SettingsChange(
        live=tuple(json_path(steps) for steps, need in changed if need == "live"),
        restart=tuple(json_path(steps) for steps, need in changed if need != "live"),
        scheduler=tuple(json_path(steps) for steps, need in changed if need == "scheduler"),
        settings=_merged(old, new, ()),
    )


def needs(steps: Steps) -> Needs:
    """What a change of this key needs. Raises KeyError for a key that `NEEDS` does not cover."""
    for length in range(len(steps), 0, -1):
        if steps[:length] in NEEDS:
            return NEEDS[steps[:length]]
    raise KeyError(steps)


def _differences(old: Section, new: Section, at: Steps) -> Iterator[Steps]:
    """Yields the paths that differ. Sections are compared key by key; a list, a mapping, and a section that is added or removed
    count as one key."""
    for name, field in type(old).model_fields.items():
        before, after = getattr(old, name), getattr(new, name)
        steps = (*at, field.alias or name)
        if isinstance(before, Section) and isinstance(after, Section):
            yield from _differences(before, after, steps)
        elif before != after:
            yield steps


def _merged(old: SectionT, new: SectionT, at: Steps) -> SectionT:
    """`old` with the changed live keys of `new`."""
    values: dict[str, Any] = {}
    for name, field in type(old).model_fields.items():
        before, after = getattr(old, name), getattr(new, name)
        steps = (*at, field.alias or name)
        if isinstance(before, Section) and isinstance(after, Section):
            values[name] = _merged(before, after, steps)
        elif before != after and needs(steps) == "live":
            values[name] = after
    return old.model_copy(update=values)
