"""The configuration file while the service runs: a changed valid file is handed on, a bad one is reported and kept out.

Flows through: the file's content, read again at an interval in a worker thread. Content and not inode or mtime: a
ConfigMap is swapped by a symlink, editors rename, and neither says when it is done. A content counts only once two
reads in a row agree, so that a file caught in the middle of a write, which may well be valid, is never taken for a
new one. Deliberately absent: deciding what a change needs (`changes.py`) and applying it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from slackwater.app.settings.model import Settings
from slackwater.app.settings.notes import unsupported
from slackwater.app.settings.problems import Problem, SettingsError, UnreadableSettings
from slackwater.app.settings.reading import parse, read_bytes

#: A file system that hangs longer than this counts as an unreadable file.
READ_DEADLINE_SECONDS: Final = 10.0

OnChange = Callable[[Settings, Settings], None]
OnRefused = Callable[[SettingsError], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unreadable:
    """Stands for the content of a file that could not be read; equal for equal reasons."""

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
    """Watches until cancelled. `current` are the settings in use, so that a change since they were read is seen.

    `on_refused(error)` is called once for each distinct content that cannot be used, after which the old settings stay;
    settings that `serve` would refuse (`unsupported`) count as such. `on_change(old, new)` is called when a file says
    something else, and when one that was refused is valid again, even if it says the same as before.
    """
    thread = anyio.CapacityLimiter(1)  # a read that hangs keeps its thread; the next one must not take another
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
