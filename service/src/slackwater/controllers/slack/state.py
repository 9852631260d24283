"""What is remembered of slack between two loops: the placeholders with their places, and the sizes of pieces.

None of it outlives the process: see ADR 71 for what a restart finds again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.controllers.slack.steady import Held
from slackwater.model.ids import NodeName
from slackwater.model.objects import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """`slack/<number>`, for `source`: a rule, a marked workload or a CapacityBuffer. `place` is None where it has none."""

    number: int
    source: str
    pod: Pod
    place: NodeName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackState:
    """`placeholders` in the order of their numbers."""

    placeholders: tuple[Placeholder, ...] = ()
    held: Mapping[str, Held] = field(default_factory=dict)
