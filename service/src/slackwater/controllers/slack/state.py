"""The state of slack between two loops: the placeholders with their places, and the sizes of pieces.

It does not outlive the process; ADR 71 says what a restart finds again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.controllers.slack.steady import Held
from slackwater.model.ids import NodeName
from slackwater.model.objects import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """Placeholder `slack/<number>` of a `source`: a rule, a marked workload, a buffer or a class. `place` None: it has none."""

    number: int
    source: str
    pod: Pod
    place: NodeName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackState:
    """What slack remembers: `placeholders` in the order of their numbers, and `held`, the pieces of each rule."""

    placeholders: tuple[Placeholder, ...] = ()
    held: Mapping[str, Held] = field(default_factory=dict)
