"""Decides which changes of the configuration take effect at once, and which wait for a restart.

In: the settings in force and the reloaded ones. Out: the changed keys of each kind, and the settings to put in force. `NEEDS`
lists every key with what a change of it needs; a test finds keys that are not listed. The caller applies the result.

`watch_settings` passes on a changed valid file, and reports an invalid one. A worker thread reads the file's content at an
interval. It compares content, not inode or mtime, because a ConfigMap is swapped by a symlink and editors rename files. New
content counts once two reads in a row agree: a half-written file may be valid.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import anyio
import anyio.to_thread

from slackwater.app.settings.cross_validation import unsupported
from slackwater.app.settings.model import Settings
from slackwater.app.settings.reading import parse, read_bytes
from slackwater.configuration.problems import Problem, SettingsError, Steps, UnreadableSettings, json_path
from slackwater.configuration.values import Section

SectionT = TypeVar("SectionT", bound=Section)

#: `live`: read again for each decision. `restart`: read once, at start. `scheduler`: also written into kube-scheduler's
#: file, so that file has to be generated again and kube-scheduler restarted.
Needs = Literal["live", "restart", "scheduler"]

#: What a change of a key needs. The longest prefix of the key's path decides.
NEEDS: Final[dict[Steps, Needs]] = {
    ("apiVersion",): "restart",
    ("kind",): "restart",
    ("mode",): "restart",
    ("shadow",): "restart",
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
    ("report",): "restart",
    ("explain",): "restart",
    ("notifications",): "restart",
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


#: A file system that hangs longer than this counts as an unreadable file.
READ_DEADLINE_SECONDS: Final = 10.0

#: Values of keys at the top of the file, by the names of their fields.
Overrides = Mapping[str, Any]
NO_OVERRIDES: Final[Overrides] = {}

OnChange = Callable[[Settings, Settings], None]
OnRefused = Callable[[SettingsError], None]


#: The content of the file, or why it could not be read.
_Content = bytes | tuple[Problem, ...]


async def watch_settings(
    path: str | Path,
    on_change: OnChange,
    on_refused: OnRefused,
    *,
    current: Settings,
    interval_seconds: float = 1.0,
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
    overrides: Overrides = NO_OVERRIDES,
) -> None:
    """Watches the file until cancelled. `current` are the settings in force; a file that has changed since then is noticed too.
    `overrides` hold in place of what the file says.

    `on_refused(error)` is called once for each new content that cannot be used; the old settings then stay in force. Settings
    that `slackwater serve` refuses (`unsupported`) cannot be used either. `on_change(old, new)` is called when the settings
    differ, and when a refused file is valid again, even with the same settings as before.
    """
    thread = anyio.CapacityLimiter(1)  # at most one thread, even if a read hangs
    previous: _Content | None = None
    judged: _Content | None = None
    is_refused = False
    while True:
        content = await _read(path, thread)
        if content == previous and content != judged:
            judged = content
            try:
                new = (await anyio.to_thread.run_sync(_usable, content, str(path))).model_copy(update=dict(overrides))
            except SettingsError as err:
                is_refused = True
                on_refused(err)
            else:
                if is_refused or new != current:
                    on_change(current, new)
                current, is_refused = new, False
        previous = content
        await sleep(interval_seconds)


def _usable(content: _Content, source: str) -> Settings:
    if isinstance(content, tuple):
        raise UnreadableSettings(content, source=source)
    settings = parse(content, source=source)
    if problems := unsupported(settings):
        raise SettingsError(problems, source=source)
    return settings


async def _read(path: str | Path, thread: anyio.CapacityLimiter) -> _Content:
    try:
        with anyio.fail_after(READ_DEADLINE_SECONDS):
            return await anyio.to_thread.run_sync(read_bytes, path, abandon_on_cancel=True, limiter=thread)
    except UnreadableSettings as err:
        return err.problems
    except TimeoutError:
        wanted = f"a file that is read within {READ_DEADLINE_SECONDS:g} s"
        return (Problem(path="", seen="no answer from the file system", wanted=wanted),)
