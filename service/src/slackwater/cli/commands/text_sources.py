"""Reads configuration files and other texts for commands, from a path or (`-`) from stdin."""

import sys
from typing import TYPE_CHECKING

from slackwater.cli.commands.failure import CommandFailed

if TYPE_CHECKING:
    from slackwater.app.settings import Settings


def settings_from(path: str | None) -> "Settings":
    """The settings of the file; the defaults if `path` is None. Raises `CommandFailed` with all problems of the file."""
    from slackwater.app.settings import Settings, SettingsError, loads

    if path is None:
        return Settings()
    try:
        return loads(text_of(path), source=name_of(path))
    except SettingsError as err:
        raise CommandFailed(err.lines()) from err


def text_of(path: str) -> str:
    """The text of the file; `-` reads stdin. Raises `UnreadableSettings`, which names the file."""
    from slackwater.app.settings.reading import decode, read_bytes
    from slackwater.configuration.text_tree import LARGEST_TEXT

    data = sys.stdin.buffer.read(LARGEST_TEXT + 1) if path == "-" else read_bytes(path)
    return decode(data, source=name_of(path))


def name_of(path: str) -> str:
    return "stdin" if path == "-" else path
