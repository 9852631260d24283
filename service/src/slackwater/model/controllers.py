"""Controllers of pods, with the fields that planners read: their references, and how many pods each wants."""

from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.model.eviction_facts import Owner

#: A controller in its namespace.
ControllerKey = tuple[str, Owner]
#: How many pods each controller wants; 0 for a controller that wants no fixed number.
Targets = Mapping[ControllerKey, int]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The number of pods that a controller wants now."""

    replicas: int
