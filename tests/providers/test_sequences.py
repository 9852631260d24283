"""Laws of any sequence of calls, right and wrong ones, with answers that get lost: what no provider ever does."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.model.nodegroups import InstanceId, NodeGroup
from slackwater.ports.protocols import ProviderError
from tests.providers.aws_rig import aws_rig
from tests.providers.clusterapi_rig import clusterapi_rig
from tests.providers.double_rig import double_rig
from tests.providers.externalgrpc_rig import externalgrpc_rig
from tests.providers.karpenter_rig import karpenter_rig
from tests.providers.kwok_rig import kwok_rig
from tests.providers.rig import MAX_SIZE, Rig, least

SECONDS = 60.0
RIGS: dict[str, Callable[[], AbstractAsyncContextManager[Rig]]] = {
    "double": double_rig,
    "kwok": kwok_rig,
    "externalgrpc": externalgrpc_rig,
    "aws": aws_rig,
    "karpenter": karpenter_rig,
    "clusterapi": lambda: clusterapi_rig("MachineDeployment"),
}
sizes = st.integers(0, MAX_SIZE + 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), sizes, st.integers(1, 3)),
        st.tuples(st.just("lower"), sizes, st.integers(1, 3)),
        st.tuples(st.just("delete"), st.integers(0, 5), st.integers(0, 5)),
        st.tuples(st.sampled_from(["settle", "noticed", "lost", "not done"]), st.just(0), st.just(0)),
    ),
    max_size=12,
)


@pytest.mark.slow
@pytest.mark.parametrize("rig", RIGS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=steps)
def test_nothing_goes_that_was_not_named_and_sizes_hold(rig: str, steps: list[tuple[str, int, int]]) -> None:
    anyio.run(_play, RIGS[rig], steps)


async def _play(make: Callable[[], AbstractAsyncContextManager[Rig]], steps: list[tuple[str, int, int]]) -> None:
    async with make() as rig:
        named: set[InstanceId] = set()
        ran: set[InstanceId] = set()
        for verb, first, second in steps:
            await _step(rig, verb, first, second, named)
            group = await _look(rig)
            assert least(rig) <= group.target <= MAX_SIZE
            there = {instance.id for instance in group.instances}
            assert ran - named <= there, f"{verb}: {ran - named - there} went without being named"
            ran |= {instance.id for instance in group.instances if instance.state == "running"}
        for _ in range(len(steps) + 2):
            await _settle(rig)
        group = await _look(rig)
        assert [instance.state for instance in group.instances] == ["running"] * group.target
        assert {instance.id for instance in group.instances} <= {node.provider_id for node in await rig.nodes()}


async def _step(rig: Rig, verb: str, first: int, second: int, named: set[InstanceId]) -> None:
    before = await _look(rig)
    provider, group = rig.provider, rig.group
    try:
        if verb == "grow":
            await provider.grow(group, seen=first, to=first + second, timeout_seconds=SECONDS)
            assert before.target == first
            assert (await _look(rig)).target == first + second
        elif verb == "lower":
            await provider.lower(group, seen=first, to=first - second, timeout_seconds=SECONDS)
            assert before.target == first
            assert (await _look(rig)).target == first - second
        elif verb == "delete":
            chosen = before.instances[first : first + second]
            await provider.delete(group, chosen, timeout_seconds=SECONDS)
            named |= {instance.id for instance in chosen}
        elif verb in ("lost", "not done"):
            rig.lose_answer(done=verb == "lost")
        else:
            await (_settle(rig) if verb == "settle" else rig.noticed())
    except ProviderError as error:
        if error.kind != "unknown":
            assert (await _look(rig)).target == before.target
        elif verb == "delete":
            named |= {instance.id for instance in before.instances[first : first + second]}


async def _settle(rig: Rig) -> None:
    """kwok's machines arrive by writes of its own, whose answers may get lost; then it tries again."""
    with suppress(ProviderError):
        await rig.settle()


async def _look(rig: Rig) -> NodeGroup:
    groups = await rig.provider.groups(timeout_seconds=60)
    return next(group for group in groups if group.name == rig.group)
