"""Watches the configuration file while the service runs: passes on a changed valid file, reports an invalid one.

A worker thread reads the file's content at an interval. It compares content, not inode or mtime, because a ConfigMap is swapped
by a symlink and editors rename files. New content counts once two reads in a row agree: a half-written file may be valid.
`reload` decides what a change needs, and `app.wiring` applies it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from slackwater.app.settings.cross_validation import unsupported
from slackwater.app.settings.model import Settings
from slackwater.app.settings.reading import parse, read_bytes
from slackwater.configuration.problems import Problem, SettingsError, UnreadableSettings

#: A file system that hangs longer than this counts as an unreadable file.
READ_DEADLINE_SECONDS: Final = 10.0

OnChange = Callable[[Settings, Settings], None]
OnRefused = Callable[[SettingsError], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unreadable:
    """Takes the place of the content of a file that could not be read. Two are equal if their reasons are."""

    problems: tuple[Problem, ...]


_Content = bytes | _Unreadable


async def watch_settings(
    path: str | Path,
    on_change: OnChange,
    on_refused: OnRefused,
    *,
    current: Settings,
    interval_seconds: float = 1.0,
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
) -> None:
    """Watches the file until cancelled. `current` are the settings in force; a file that has changed since then is noticed too.

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
                new = await anyio.to_thread.run_sync(_usable, content, str(path))
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
    if isinstance(content, _Unreadable):
        raise UnreadableSettings(content.problems, source=source)
    settings = parse(content, source=source)
    if problems := unsupported(settings):
        raise SettingsError(problems, source=source)
    return settings


async def _read(path: str | Path, thread: anyio.CapacityLimiter) -> _Content:
    try:
        with anyio.fail_after(READ_DEADLINE_SECONDS):
            return await anyio.to_thread.run_sync(read_bytes, path, abandon_on_cancel=True, limiter=thread)
    except UnreadableSettings as err:
        return _Unreadable(problems=err.problems)
    except TimeoutError:
        wanted = f"a file that is read within {READ_DEADLINE_SECONDS:g} s"
        return _Unreadable(problems=(Problem(path="", seen="no answer from the file system", wanted=wanted),))
