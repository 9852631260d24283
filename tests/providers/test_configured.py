"""Groups as the configuration wants them: other names, narrower sizes, another template."""

import pytest

from slackwater.adapters.cloud.configured import ConfiguredProvider, Entry
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.ports.protocols import ProviderError
from tests.support.builders import a_node
from tests.support.cloud import Cloud

pytestmark = pytest.mark.anyio

POOL = GroupName("pool-a")


def configured(cloud: Cloud, *, own_template: bool = False, smallest: int = 0, largest: int = 50) -> ConfiguredProvider:
    template = a_node("ours") if own_template else None
    entry = Entry(id=GroupName("zone/pool"), name=POOL, min_size=smallest, max_size=largest, template=template)
    return ConfiguredProvider(cloud, [entry])


@pytest.fixture
def cloud() -> Cloud:
    cloud = Cloud(now=lambda: 1000.0)
    cloud.has("zone/pool", size=3, min_size=2, max_size=10)
    cloud.has("another", size=1)
    return cloud


async def look(provider: ConfiguredProvider) -> NodeGroup:
    return next(group for group in await provider.groups(timeout_seconds=60) if group.name == POOL)


async def test_what_is_not_configured_stays_as_it_is(cloud: Cloud) -> None:
    assert [group.name for group in await configured(cloud).groups(timeout_seconds=60)] == ["another", "pool-a"]


@pytest.mark.parametrize(("smallest", "largest", "want"), [(0, 50, (2, 10)), (3, 7, (3, 7)), (0, 7, (2, 7))])
async def test_sizes_only_become_narrower(cloud: Cloud, smallest: int, largest: int, want: tuple[int, int]) -> None:
    group = await look(configured(cloud, smallest=smallest, largest=largest))
    assert (group.min_size, group.max_size) == want


async def test_a_configured_size_is_a_limit(cloud: Cloud) -> None:
    provider = configured(cloud, smallest=4, largest=5)
    with pytest.raises(ProviderError, match="node group pool-a: limit"):
        await provider.grow(POOL, seen=3, to=6, timeout_seconds=60)
    await provider.grow(POOL, seen=3, to=5, timeout_seconds=60)
    with pytest.raises(ProviderError, match="node group pool-a: limit"):
        await provider.lower(POOL, seen=5, to=3, timeout_seconds=60)
    await provider.lower(POOL, seen=5, to=4, timeout_seconds=60)
    assert [(call.group, call.to) for call in cloud.calls] == [("zone/pool", 5), ("zone/pool", 4)]


async def test_a_template_of_ones_own_counts(cloud: Cloud) -> None:
    theirs = (await look(configured(cloud))).template
    ours = (await look(configured(cloud, own_template=True))).template
    assert theirs is not None
    assert ours is not None
    assert (theirs.name, ours.name) == ("template-of-zone/pool", "ours")


async def test_errors_name_the_group_as_the_caller_does(cloud: Cloud) -> None:
    provider = configured(cloud)
    cloud.refuse("out-of-resources")
    with pytest.raises(ProviderError) as caught:
        await provider.grow(POOL, seen=3, to=4, timeout_seconds=60)
    assert (caught.value.kind, caught.value.group) == ("out-of-resources", POOL)
    others = (await provider.groups(timeout_seconds=60))[0].instances
    with pytest.raises(ProviderError, match="node group pool-a: conflict"):
        await provider.delete(POOL, others, timeout_seconds=60)


async def test_instances_are_deleted_in_the_providers_group(cloud: Cloud) -> None:
    provider = configured(cloud)
    await provider.delete(POOL, (await look(provider)).instances[:1], timeout_seconds=60)
    assert (await look(provider)).target == 2
