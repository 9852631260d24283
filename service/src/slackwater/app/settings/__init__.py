"""The configuration file as one frozen, validated value. A bad file is refused with all its problems at once.

Entry points: `load`, `loads`, `Settings` (the defaults), `SettingsError.problems`, `schema`, `notes`, `unsupported`,
`live` (which changes take effect without a restart) and `watch_settings`.
"""

from slackwater.app.settings.cross_validation import notes, unsupported
from slackwater.app.settings.model import Settings
from slackwater.app.settings.reading import as_file, file_paths, load, loads, schema
from slackwater.app.settings.reload import SettingsChange, live, watch_settings
from slackwater.configuration.problems import Problem, SettingsError, UnreadableSettings

__all__ = [
    "Problem",
    "Settings",
    "SettingsChange",
    "SettingsError",
    "UnreadableSettings",
    "as_file",
    "file_paths",
    "live",
    "load",
    "loads",
    "notes",
    "schema",
    "unsupported",
    "watch_settings",
]
