"""The `history` section of the configuration file: whether the history survives this process."""

from slackwater.configuration.values import Section, Switch


class History(Section):
    """The history of what happened to pods and nodes, which `slackwater history` shows."""

    persist: Switch = True
    """Whether the history is written to ConfigMaps `slackwater-history-*` in namespace kube-system, so that it survives
    restarts and hand-overs. true by default; otherwise it begins with each process."""
