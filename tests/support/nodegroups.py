"""Short ways to say what providers and Nodes show, for tests of the node group registry and of the loop."""

from collections.abc import Iterable

from slackwater.cluster.nodegroups.status import NodeObservation
from slackwater.model.ids import Instant, NodeName
from slackwater.model.nodegroups import (
    NO_OPTIONS,
    GroupName,
    GroupOptions,
    Instance,
    InstanceError,
    InstanceErrorKind,
    InstanceId,
    NodeGroup,
)


def an_instance(name: str, *, state: str = "running", error: InstanceErrorKind | None = None) -> Instance:
    problem = None if error is None else InstanceError(kind=error, code=f"E-{error}", message=f"{name}: {error}")
    match state:
        case "creating" | "running" | "deleting":
            return Instance(id=InstanceId(f"i-{name}"), state=state, error=problem)
        case _:
            raise AssertionError(state)


def a_group(
    name: str = "g",
    *,
    target: int | None = None,
    instances: Iterable[Instance] = (),
    min_size: int = 0,
    max_size: int = 1000,
    provider: str = "cloud",
    options: GroupOptions = NO_OPTIONS,
) -> NodeGroup:
    there = tuple(instances)
    living = sum(instance.state != "deleting" for instance in there)
    return NodeGroup(
        name=GroupName(name),
        provider=provider,
        min_size=min_size,
        max_size=max_size,
        target=living if target is None else target,
        instances=there,
        options=options,
    )


def observations(
    *, started: Iterable[str] = (), half: Iterable[str] = (), born: float = 0.0, used: bool = False
) -> dict[InstanceId, NodeObservation]:
    """Nodes named as their instances: `started` ones, and `half` ones that have registered only."""
    found = [(name, True) for name in started] + [(name, False) for name in half]
    return {
        InstanceId(f"i-{name}"): NodeObservation(NodeName(name), begun, Instant(born), used=used and not begun)
        for name, begun in found
    }
