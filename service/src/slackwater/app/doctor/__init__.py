"""Examines a cluster for `slackwater doctor`: what would keep Slackwater from working there, and what to do about it.

In: the API server with the user's own rights, the configuration, the time. Out: one `Check` for each thing that was looked at,
also for things that the user may not see. Nothing is changed.

examination.py  all checks in their order
installation.py configuration, rights, Pods and pauses of the service
api_server.py   versions, flags, feature gates, the APIs that are served
autoscalers.py  other autoscalers, other instances of Slackwater, and clocks that are ahead, as far as Leases show them
agents.py       whether autoscaler agents can reach the service
network.py      what a NetworkPolicy lets through
"""

from slackwater.app.doctor.agents import port_forward_probe
from slackwater.app.doctor.check import Check, State
from slackwater.app.doctor.examination import examine

__all__ = ["Check", "State", "examine", "port_forward_probe"]
