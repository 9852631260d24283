"""What of the service's decisions is carried out, and what is withheld: decided, planned and shown, and not done.

A shadow withholds everything. What is withheld leaves no trace in what the next decision is made from: the next loop starts
from the cluster as it is.
"""

from collections.abc import Callable
from typing import Final, Literal

from slackwater.model.nodegroups import GroupName

Capability = Literal["slack", "scale-up", "scale-down", "consolidation"]

#: Why what a capability decides about a group is withheld; None: it is carried out.
Withholds = Callable[[Capability, GroupName], str | None]

#: Why a shadow does nothing.
SHADOW: Final = "this service is a shadow: it only watches, and writes nothing"


def withhold_nothing(_capability: Capability, _group: GroupName) -> str | None:
    return None
