"""kube-scheduler's configuration file: generates one for this service, and checks one for known traps."""

from slackwater.app.schedulerconfig.check import check
from slackwater.app.schedulerconfig.finding import Finding
from slackwater.app.schedulerconfig.generate import generate

__all__ = ["Finding", "check", "generate"]
