"""Reads configuration files and other texts for commands, from a path or (`-`) from stdin."""

import sys
from typing import TYPE_CHECKING

from slackwater.cli.commands.failure import CommandFailed

if TYPE_CHECKING:
    from slackwater.app.settings import Settings


def settings_from(path: str | None) -> "Settings":
    """The settings of a file, or the defaults. Raises `CommandFailed` with every problem of the file."""
    from slackwater.app.settings import Settings, SettingsError, loads

    if path is None:
        return Settings()
    try:
        return loads(text_of(path), source=name_of(path))
    except SettingsError as err:
        raise CommandFailed(err.lines()) from err


def text_of(path: str) -> str:
    """The text of a file, or of stdin for `-`. Raises `UnreadableSettings`, with its source."""
    from slackwater.app.settings.reading import decode, read_bytes
    from slackwater.configuration.text_tree import LARGEST_TEXT

    data = sys.stdin.buffer.read(LARGEST_TEXT + 1) if path == "-" else read_bytes(path)
    return decode(data, source=name_of(path))


def name_of(path: str) -> str:
    return "stdin" if path == "-" else path
