"""What every provider does, whatever cloud is behind it; `rig` is one provider after the other (see conftest)."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from slackwater.model.nodegroups import (
    GroupName,
    Instance,
    InstanceErrorKind,
    InstanceId,
    Membership,
    NodeGroup,
    choice_of_provider,
)
from slackwater.ports.protocols import ProviderError
from tests.providers.rig import FIRST_SIZE, MAX_SIZE, Rig, least

pytestmark = [pytest.mark.anyio]

#: A call that takes longer hangs.
SECONDS = 60.0


async def look(rig: Rig, name: GroupName | None = None) -> NodeGroup:
    found = {group.name: group for group in await rig.provider.groups(timeout_seconds=SECONDS)}
    return found[rig.group if name is None else name]


async def grow(rig: Rig, seen: int, to: int) -> None:
    await rig.provider.grow(rig.group, seen=seen, to=to, timeout_seconds=SECONDS)
    await rig.noticed()


async def lower(rig: Rig, seen: int, to: int) -> None:
    await rig.provider.lower(rig.group, seen=seen, to=to, timeout_seconds=SECONDS)


async def delete(rig: Rig, *instances: Instance) -> None:
    await rig.provider.delete(rig.group, instances, timeout_seconds=SECONDS)


def there(group: NodeGroup) -> set[InstanceId]:
    return {instance.id for instance in group.instances if instance.state != "deleting"}


async def test_groups_are_listed_by_name_with_their_limits(rig: Rig) -> None:
    groups = await rig.provider.groups(timeout_seconds=SECONDS)
    assert [group.name for group in groups] == sorted([rig.group, rig.other])
    group = await look(rig)
    assert (group.min_size, group.max_size, group.target) == (least(rig), MAX_SIZE, FIRST_SIZE)
    assert group.provider == rig.provider.name
    assert [instance.state for instance in group.instances] == ["running"] * FIRST_SIZE


async def test_instances_are_the_machines_of_the_nodes(rig: Rig) -> None:
    groups = await rig.provider.groups(timeout_seconds=SECONDS)
    nodes, membership = await rig.nodes(), Membership(groups)
    for group in groups:
        mine = {node.provider_id for node in nodes if membership.group_of(node) == group.name}
        assert mine == there(group)
        named = {instance.node for instance in group.instances if instance.node is not None}
        assert named <= {node.name for node in nodes}


async def test_a_template_says_what_a_new_node_will_be(rig: Rig) -> None:
    template = (await look(rig)).template
    assert template is not None
    assert template.allocatable == (4000, 16 << 30)
    assert dict(template.scalars)["pods"] == 110
    assert template.labels["tier"] == "batch"
    assert [(taint.key, taint.value, taint.effect) for taint in template.taints] == [("dedicated", "batch", "NoSchedule")]


async def test_nobody_lets_us_choose_the_variant_of_a_node_as_long_as_to_grow_takes_only_a_number(rig: Rig) -> None:
    choice = (await look(rig)).choice
    assert choice == choice_of_provider(rig.provider.name, rig.group)
    assert "plan" not in (choice.types, choice.zones)


async def test_to_grow_is_to_ask_for_machines_that_come_later(rig: Rig) -> None:
    before = await look(rig)
    await grow(rig, FIRST_SIZE, FIRST_SIZE + 2)
    asked = await look(rig)
    assert asked.target == FIRST_SIZE + 2
    assert sum(instance.state == "running" for instance in asked.instances) == FIRST_SIZE
    await rig.settle()
    after = await look(rig)
    assert there(before) < there(after)
    assert [instance.state for instance in after.instances] == ["running"] * (FIRST_SIZE + 2)
    assert after.target == FIRST_SIZE + 2
    assert there(after) <= {node.provider_id for node in await rig.nodes()}


@pytest.mark.parametrize("seen", [FIRST_SIZE - 1, FIRST_SIZE + 1])
async def test_to_grow_from_a_size_that_is_not_is_a_conflict(rig: Rig, seen: int) -> None:
    with pytest.raises(ProviderError, match="conflict") as caught:
        await grow(rig, seen, seen + 2)
    assert (caught.value.kind, caught.value.group) == ("conflict", rig.group)
    assert (await look(rig)).target == FIRST_SIZE


async def test_to_grow_again_is_a_conflict_and_not_a_second_growth(rig: Rig) -> None:
    await grow(rig, FIRST_SIZE, FIRST_SIZE + 1)
    with pytest.raises(ProviderError, match="conflict"):
        await grow(rig, FIRST_SIZE, FIRST_SIZE + 1)
    await rig.settle()
    group = await look(rig)
    assert (group.target, len(there(group))) == (FIRST_SIZE + 1, FIRST_SIZE + 1)


@pytest.mark.parametrize("processes", [1, 2])
async def test_of_two_growths_at_once_one_is_done(rig: Rig, processes: int) -> None:
    if processes > 1 and not rig.guards_processes:
        pytest.skip("the protocol has no precondition: only a leader acts")
    providers = (rig.provider, rig.provider if processes == 1 else rig.another())
    kinds: list[str] = []

    async def try_it(index: int) -> None:
        try:
            await providers[index].grow(rig.group, seen=FIRST_SIZE, to=FIRST_SIZE + 2, timeout_seconds=SECONDS)
        except ProviderError as error:
            kinds.append(error.kind)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(try_it, 0)
        tasks.start_soon(try_it, 1)
    assert kinds == ["conflict"]
    await rig.settle()
    group = await look(rig)
    assert (group.target, len(there(group))) == (FIRST_SIZE + 2, FIRST_SIZE + 2)


async def test_another_process_sees_what_was_asked(rig: Rig) -> None:
    await grow(rig, FIRST_SIZE, FIRST_SIZE + 2)
    seen = {group.name: group for group in await rig.another().groups(timeout_seconds=SECONDS)}
    assert seen[rig.group].target == FIRST_SIZE + 2


async def test_nothing_grows_beyond_the_maximum(rig: Rig) -> None:
    with pytest.raises(ProviderError, match=f"limit.*{MAX_SIZE}"):
        await grow(rig, FIRST_SIZE, MAX_SIZE + 1)
    assert (await look(rig)).target == FIRST_SIZE
    await grow(rig, FIRST_SIZE, MAX_SIZE)
    assert (await look(rig)).target == MAX_SIZE


async def test_to_lower_gives_up_what_has_not_come(rig: Rig) -> None:
    before = await look(rig)
    await grow(rig, FIRST_SIZE, FIRST_SIZE + 3)
    await lower(rig, FIRST_SIZE + 3, FIRST_SIZE + 1)
    assert (await look(rig)).target == FIRST_SIZE + 1
    await rig.settle()
    after = await look(rig)
    assert there(before) < there(after)
    assert (after.target, len(there(after))) == (FIRST_SIZE + 1, FIRST_SIZE + 1)


async def test_to_lower_never_deletes(rig: Rig) -> None:
    before = await look(rig)
    await grow(rig, FIRST_SIZE, FIRST_SIZE + 1)
    with pytest.raises(ProviderError, match="conflict"):
        await lower(rig, FIRST_SIZE + 1, FIRST_SIZE - 1)
    assert (await look(rig)).target == FIRST_SIZE + 1
    await rig.settle()
    assert there(before) < there(await look(rig))


async def test_to_lower_from_a_size_that_is_not_is_a_conflict(rig: Rig) -> None:
    await grow(rig, FIRST_SIZE, FIRST_SIZE + 3)
    with pytest.raises(ProviderError, match="conflict"):
        await lower(rig, FIRST_SIZE + 2, FIRST_SIZE + 1)
    assert (await look(rig)).target == FIRST_SIZE + 3


async def test_nothing_shrinks_below_the_minimum(rig: Rig) -> None:
    group = await look(rig)
    with pytest.raises(ProviderError, match="limit"):
        await lower(rig, FIRST_SIZE, least(rig) - 1)
    if least(rig):
        with pytest.raises(ProviderError, match=f"limit.*{least(rig)}"):
            await delete(rig, *group.instances)
    await rig.settle()
    assert there(await look(rig)) == there(group)


async def test_exactly_those_are_deleted_that_were_named(rig: Rig) -> None:
    before = await look(rig)
    to_delete = before.instances[1]
    await delete(rig, to_delete)
    assert (await look(rig)).target == FIRST_SIZE - 1
    await rig.settle()
    after = await look(rig)
    assert there(after) == there(before) - {to_delete.id}
    assert after.target == FIRST_SIZE - 1
    assert to_delete.id not in {node.provider_id for node in await rig.nodes()}


async def test_two_are_deleted_with_one_call(rig: Rig) -> None:
    before = await look(rig)
    await delete(rig, *before.instances[:2])
    await rig.settle()
    after = await look(rig)
    assert there(after) == {before.instances[2].id}
    assert after.target == FIRST_SIZE - 2


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "on its way out"])
async def test_to_delete_again_is_done_and_lowers_nothing(rig: Rig, gone: bool) -> None:
    to_delete = (await look(rig)).instances[0]
    await delete(rig, to_delete)
    if gone:
        await rig.settle()
    await delete(rig, to_delete)
    await rig.settle()
    group = await look(rig)
    assert (group.target, len(there(group))) == (FIRST_SIZE - 1, FIRST_SIZE - 1)


async def test_a_machine_that_has_not_come_can_be_deleted(rig: Rig) -> None:
    before = await look(rig)
    await grow(rig, FIRST_SIZE, FIRST_SIZE + 1)
    coming = [instance for instance in (await look(rig)).instances if instance.state == "creating"]
    assert len(coming) == 1
    await delete(rig, *coming)
    await rig.settle()
    after = await look(rig)
    assert (after.target, there(after)) == (FIRST_SIZE, there(before))


async def test_a_machine_is_replaced_at_the_same_size_or_the_provider_says_that_it_cannot(rig: Rig) -> None:
    before = await look(rig)
    to_delete = before.instances[0]
    if rig.provider.name == "externalgrpc":
        with pytest.raises(ProviderError, match="limit"):
            await rig.provider.delete(rig.group, [to_delete], timeout_seconds=SECONDS, replace=True)
        return
    await rig.provider.delete(rig.group, [to_delete], timeout_seconds=SECONDS, replace=True)
    assert (await look(rig)).target == FIRST_SIZE
    await rig.noticed()
    await rig.settle()
    after = await look(rig)
    assert (after.target, len(there(after))) == (FIRST_SIZE, FIRST_SIZE)
    assert there(before) - there(after) == {to_delete.id}


async def test_machines_of_another_group_are_not_deleted(rig: Rig) -> None:
    mine, others = (await look(rig)).instances, (await look(rig, rig.other)).instances
    with pytest.raises(ProviderError, match="conflict"):
        await delete(rig, mine[0], others[0])
    await rig.settle()
    assert there(await look(rig)) == {instance.id for instance in mine}
    assert there(await look(rig, rig.other)) == {instance.id for instance in others}
    assert (await look(rig, rig.other)).target == len(others)


@pytest.mark.parametrize("done", [True, False], ids=["it was done", "it was not"])
async def test_a_growth_whose_answer_is_lost_is_unknown_and_never_doubled(rig: Rig, done: bool) -> None:
    rig.lose_answer(done=done)
    with pytest.raises(ProviderError, match="unknown"):
        await rig.provider.grow(rig.group, seen=FIRST_SIZE, to=FIRST_SIZE + 1, timeout_seconds=SECONDS)
    assert (await look(rig)).target == FIRST_SIZE + done
    if done:
        with pytest.raises(ProviderError, match="conflict"):
            await grow(rig, FIRST_SIZE, FIRST_SIZE + 1)
    else:
        await grow(rig, FIRST_SIZE, FIRST_SIZE + 1)
    await rig.settle()
    group = await look(rig)
    assert (group.target, len(there(group))) == (FIRST_SIZE + 1, FIRST_SIZE + 1)


@pytest.mark.parametrize("done", [True, False], ids=["it was done", "it was not"])
async def test_a_deletion_whose_answer_is_lost_may_be_repeated(rig: Rig, done: bool) -> None:
    before = await look(rig)
    to_delete = before.instances[1]
    rig.lose_answer(done=done)
    with pytest.raises(ProviderError, match="unknown"):
        await rig.provider.delete(rig.group, [to_delete], timeout_seconds=SECONDS)
    await delete(rig, to_delete)
    await rig.settle()
    after = await look(rig)
    assert (after.target, there(after)) == (FIRST_SIZE - 1, there(before) - {to_delete.id})


@pytest.mark.parametrize("kind", ["out-of-resources", "other"])
async def test_a_machine_that_does_not_come_says_why_and_can_be_deleted(rig: Rig, kind: InstanceErrorKind) -> None:
    await grow(rig, FIRST_SIZE, FIRST_SIZE + 1)
    await rig.machines_fail(kind)
    group = await look(rig)
    (failed,) = (instance for instance in group.instances if instance.error is not None)
    assert failed.error is not None
    assert (failed.error.kind, failed.state) == (kind, "creating")
    assert failed.error.code
    assert failed.error.message
    assert group.target == FIRST_SIZE + 1
    await delete(rig, failed)
    await rig.settle()
    after = await look(rig)
    assert (after.target, len(there(after))) == (FIRST_SIZE, FIRST_SIZE)


async def test_a_group_that_is_not_there_is_gone(rig: Rig) -> None:
    nowhere = GroupName(f"{rig.group}-nowhere")
    instance = (await look(rig)).instances[0]
    calls: list[Callable[[], Awaitable[None]]] = [
        lambda: rig.provider.grow(nowhere, seen=0, to=1, timeout_seconds=SECONDS),
        lambda: rig.provider.lower(nowhere, seen=1, to=0, timeout_seconds=SECONDS),
        lambda: rig.provider.delete(nowhere, [instance], timeout_seconds=SECONDS),
    ]
    for call in calls:
        with pytest.raises(ProviderError, match="gone") as caught:
            await call()
        assert (caught.value.kind, caught.value.group) == ("gone", nowhere)


async def test_a_silent_cloud_ends_every_call_in_time(rig: Rig) -> None:
    instance = (await look(rig)).instances[0]
    rig.silence()
    provider, group = rig.provider, rig.group
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: provider.groups(timeout_seconds=0.2),
        lambda: provider.grow(group, seen=FIRST_SIZE, to=FIRST_SIZE + 1, timeout_seconds=0.2),
        lambda: provider.lower(group, seen=FIRST_SIZE, to=FIRST_SIZE - 1, timeout_seconds=0.2),
        lambda: provider.delete(group, [instance], timeout_seconds=0.2),
    ]
    for call in calls:
        with anyio.fail_after(SECONDS), pytest.raises(ProviderError):
            await call()
