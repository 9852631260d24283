"""The `history` section of the configuration file: whether the history survives this process."""

from pydantic import Field

from slackwater.configuration.values import FilePath, Section, Switch


class History(Section):
    """The history of what happened to pods and nodes, which `slackwater history` shows."""

    persist: Switch = True
    """Whether the history is written to ConfigMaps `slackwater-history-*` in namespace kube-system, so that it survives
    restarts and hand-overs. true by default; otherwise it begins with each process."""
    file: FilePath | None = Field(default=None, examples=["/var/lib/slackwater/history.json"])
    """Path of the file that keeps the history of a shadow, which writes no ConfigMap: a few megabytes, in which new entries
    replace the oldest. Unset by default: the history of a shadow begins with its process. Only with `mode: shadow`."""
