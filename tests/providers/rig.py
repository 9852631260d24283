"""What the conformance suite needs of a provider and the cloud behind it."""

from collections.abc import Sequence
from typing import Protocol

from slackwater.model.nodegroups import GroupName, InstanceErrorKind
from slackwater.model.objects import Node
from slackwater.ports.protocols import NodeProvider

#: Of the group that the suite works on: how many nodes it may have, and how many run at first.
MIN_SIZE, MAX_SIZE, FIRST_SIZE = 1, 6, 3


def least(rig: "Rig") -> int:
    """The minimum of the group. A NodePool has none."""
    return 0 if rig.provider.name == "karpenter" else MIN_SIZE


class Rig(Protocol):
    """A provider with two groups of one kind: `group` as above, and `other`, where one node runs.

    New machines stay on their way until `settle`.
    """

    @property
    def provider(self) -> NodeProvider: ...

    @property
    def group(self) -> GroupName: ...

    @property
    def other(self) -> GroupName: ...

    @property
    def guards_processes(self) -> bool:
        """Whether two processes that grow a group at the same time cannot both do it. Within one process nobody can."""
        ...

    async def noticed(self) -> None:
        """The cloud has seen what was asked last, and has begun with it; nothing has arrived yet."""
        ...

    async def settle(self) -> None:
        """Machines that are on their way arrive, their Nodes register; those being deleted are gone."""
        ...

    async def nodes(self) -> Sequence[Node]:
        """The Nodes of the cluster."""
        ...

    def another(self) -> NodeProvider:
        """A second provider on the same cloud, as after a restart or in a second process."""
        ...

    def lose_answer(self, *, done: bool) -> None:
        """The answer to the next change that reaches the cloud gets lost, after (`done`) or before it was carried out."""
        ...

    async def machines_fail(self, kind: InstanceErrorKind) -> None:
        """The machines that are on their way will not come, for this reason."""
        ...

    def silence(self) -> None:
        """From now on the cloud does not answer at all."""
        ...
