"""kube-scheduler's configuration file: generates one for this service, and checks one for known mistakes ("traps")."""

from slackwater.app.scheduler_config.check import check
from slackwater.app.scheduler_config.config_tree import Finding
from slackwater.app.scheduler_config.generate import generate

__all__ = ["Finding", "check", "generate"]
