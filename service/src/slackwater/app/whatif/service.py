"""Answers what-if questions on the running service: implements `ports.protocols.WhatIf`.

The planning process answers them on the replica of the cluster (`question`), so the service is not held up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec

from slackwater.app.settings import Settings
from slackwater.app.whatif.question import GroupRegistryView, WhatIfQuestion
from slackwater.model.ids import Instant, PodKey
from slackwater.model.objects import Pod
from slackwater.ports.protocols import Question, Supposed
from slackwater.runtime.planner.process import Questions
from slackwater.runtime.state_machine import StateMachine


class WhatIfService:
    """Answers what-if questions. `questions` sends them to the planning process and returns the answers."""

    def __init__(
        self,
        state_machine: StateMachine,
        questions: Questions,
        *,
        group_registry: Callable[[], GroupRegistryView | None],
        settings: Callable[[], Settings],
        clock: Callable[[], Instant],
    ) -> None:
        self._state_machine = state_machine
        self._questions = questions
        self._group_registry = group_registry
        self._settings = settings
        self._clock = clock

    async def __call__(self, question: Question, supposed: Supposed) -> bytes:
        objects = tuple(msgspec.json.encode(each) for each in supposed.objects)
        rest = replace(supposed, objects=())

        def asked() -> WhatIfQuestion:
            view = self._group_registry()
            return WhatIfQuestion(
                question=question,
                supposed=rest,
                objects=objects,
                ended=self._ended(supposed.remove),
                settings=self._settings(),
                group_registry=None if view is None else replace(view, slack=None),
                now=self._clock(),
            )

        return await self._questions.ask(asked)

    def _ended(self, remove: Sequence[Mapping[str, str]]) -> tuple[Pod, ...]:
        """The pods to remove that have ended: only the state machine knows them."""
        keys = (
            PodKey(each.get("namespace") or "default", each.get("name", "")) for each in remove if each.get("kind") == "Pod"
        )
        found = (self._state_machine.state.pods.by_key(key) for key in dict.fromkeys(keys))
        return tuple(pod for pod in found if pod is not None and pod.ended)
