"""What `slackwater config from-...` reads of a cluster: lists whose items say no kind."""

import pytest

from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.errors import StatusError
from slackwater.app.converters.cluster_autoscaler import from_cluster_autoscaler
from slackwater.app.converters.karpenter import from_karpenter
from slackwater.app.settings import loads
from slackwater.cli.commands.convert import KARPENTER, WORKLOADS, fetched
from tests.support.fakeapi import FakeApi, Reply

pytestmark = pytest.mark.anyio

DEPLOYMENTS, MAPS, POOLS = WORKLOADS[0], WORKLOADS[-1], KARPENTER[0]


async def test_an_installed_cluster_autoscaler_is_found(api: FakeApi, client: KubeClient) -> None:
    container = {"image": "own/cluster-autoscaler:1", "args": ["--max-nodes-total=7", "--expander=priority"]}
    item = {"metadata": {"name": "ca", "namespace": "infra"}, "spec": {"template": {"spec": {"containers": [container]}}}}
    empty = {"kind": "List", "items": []}
    for path in WORKLOADS[1:]:
        api.reply("GET", path, Reply(body=empty))
    api.reply("GET", DEPLOYMENTS, Reply(body={"kind": "DeploymentList", "apiVersion": "apps/v1", "items": [item]}))
    result = from_cluster_autoscaler(await fetched(client, WORKLOADS))
    assert loads(result.text).autoscaler.scale_up.limits == {"nodes": 7 * 10**9}
    assert result.text.startswith("# From Deployment infra/ca, ")
    (asked,) = [each for each in api.asked if each.path == MAPS]
    assert "cluster-autoscaler-priority-expander" in str(asked)


async def test_pools_are_found_without_the_type_of_overlays(api: FakeApi, client: KubeClient) -> None:
    item = {"metadata": {"name": "p"}, "spec": {"weight": 3}}
    api.absent.add(KARPENTER[1])
    api.reply("GET", POOLS, Reply(body={"kind": "NodePoolList", "apiVersion": "karpenter.sh/v1", "items": [item]}))
    result = from_karpenter(await fetched(client, KARPENTER), provider="clusterapi")
    assert [each.name for each in loads(result.text).autoscaler.node_groups] == ["p"]


async def test_a_cluster_without_the_type_is_an_error(api: FakeApi, client: KubeClient) -> None:
    api.absent.add(POOLS)
    with pytest.raises(StatusError):
        await fetched(client, KARPENTER)
