"""Controllers of pods, as far as planners read them: which they are, and how many pods each wants."""

from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.model.eviction_facts import Owner

#: A controller in its namespace.
ControllerKey = tuple[str, Owner]
#: How many pods each wants; 0 where a kind wants no number.
Targets = Mapping[ControllerKey, int]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many pods a controller wants at the moment."""

    replicas: int
