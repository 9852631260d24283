"""kube-scheduler's own configuration file: writing one for this service, and checking one for the known traps."""

from slackwater.app.schedulerconfig.check import check
from slackwater.app.schedulerconfig.finding import Finding
from slackwater.app.schedulerconfig.generate import generate

__all__ = ["Finding", "check", "generate"]
