"""A cluster that is read from an API server has its pods: nothing is made there, but new pods are admitted by its objects."""

import pytest

from slackwater.adapters.kube.client import KubeClient
from slackwater.app.offline.files import fetch_cluster
from slackwater.app.offline.objects import ClusterError
from tests.support.fakeapi import FakeApi, Reply

pytestmark = pytest.mark.anyio


async def test_no_pods_are_made_and_limit_ranges_count(api: FakeApi, client: KubeClient) -> None:
    api.reply("GET", "/version", Reply(body={"major": "1", "minor": "36", "gitVersion": "v1.36.3"}))
    api.put("/api/v1/nodes", "a", kind="Node", status={"allocatable": {"cpu": "4", "pods": "9"}})
    api.put("/api/v1/pods", "p", "shop", kind="Pod", spec={"containers": [{"name": "c"}]}, status={"phase": "Pending"})
    template = {"spec": {"containers": [{"name": "c"}], "priorityClassName": "high"}}
    for kind in ("Deployment", "DaemonSet"):
        api.put(f"/apis/apps/v1/{kind.lower()}s", "d", "shop", kind=kind, spec={"replicas": 2, "template": template})
    limits = [{"type": "Container", "defaultRequest": {"cpu": "500m"}}]
    api.put("/api/v1/limitranges", "lr", "shop", kind="LimitRange", spec={"limits": limits})
    api.put("/apis/scheduling.k8s.io/v1/priorityclasses", "high", kind="PriorityClass", value=7)
    cluster = await fetch_cluster(client)
    assert ([pod.key.name for pod in cluster.pods], cluster.made, cluster.remarks) == (["p"], {}, ())
    assert [(daemon.kind.requests.cpu, daemon.priority) for daemon in cluster.daemons] == [(500, 7)]


FORBIDDEN = Reply(status=403, body={"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"})


async def test_rights_that_are_lacking_are_named(api: FakeApi, client: KubeClient) -> None:
    api.reply("GET", "/version", Reply(body={"major": "1", "minor": "36", "gitVersion": "v1.36.3"}))
    api.put("/api/v1/nodes", "a", kind="Node", status={"allocatable": {"cpu": "4", "pods": "9"}})
    api.put("/api/v1/pods", "p", "shop", kind="Pod", spec={"containers": [{"name": "c"}]}, status={"phase": "Pending"})
    for path in ("/apis/policy/v1/poddisruptionbudgets", "/apis/apps/v1/daemonsets"):
        api.reply("GET", path, FORBIDDEN)
    cluster = await fetch_cluster(client)
    assert cluster.unread == ("daemonsets, poddisruptionbudgets: the right to list them is lacking",)
    assert cluster.budgets is None


async def test_without_the_right_to_list_nodes_and_pods_nothing_is_judged(api: FakeApi, client: KubeClient) -> None:
    api.reply("GET", "/version", Reply(body={"major": "1", "minor": "36", "gitVersion": "v1.36.3"}))
    for path in ("/api/v1/nodes", "/api/v1/pods"):
        api.reply("GET", path, FORBIDDEN)
    with pytest.raises(ClusterError, match="may not list nodes and pods, want the verb list on nodes and pods"):
        await fetch_cluster(client)
