"""A group whose nodes are of Karpenter's NodePool is planned with and left alone, unless it is handed over by name: the whole
service beside the sandbox cluster."""

import json
from datetime import UTC, datetime

import anyio
import pytest

from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName
from slackwater.sandbox.embedded.kinds import NODES
from tests.scenarios.scaledown import test_the_wall_clock_jumps as service

MARKED = service.SETTINGS.replace(
    "template: {status:", "template: {metadata: {labels: {karpenter.sh/nodepool: general}}, status:"
)
HANDED_OVER = MARKED.replace("  creation:", "  handedOver: [pool]\n  creation:")


def test_it_is_left_alone_and_the_answers_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "SETTINGS", MARKED)

    async def story(cluster: service.Cluster) -> None:
        cluster.add_pods(2, "first")
        await anyio.sleep(2 * service.MINUTES)
        assert cluster.nodes == 0
        for number in range(2):  # as Karpenter makes them
            amounts = {"cpu": "4", "memory": "16Gi", "pods": "20"}
            labels = {"slackwater.dev/node-group": "pool", "karpenter.sh/nodepool": "general"}
            node = {
                "metadata": {"name": f"n-{number}", "labels": labels},
                "spec": {"providerID": f"kwok://n-{number}"},
                "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
            }
            body = json.dumps(node)
            assert cluster.box.api.request("POST", "/api/v1/nodes", body=body.encode()).status == 201
        cluster.drop_pods()
        await anyio.sleep(15 * service.MINUTES)
        assert cluster.nodes == 2
        assert all(not stored.body["spec"].get("taints") for stored in cluster.box.api.store.all(NODES))
        autoscaler = cluster.service.autoscaler_service
        assert autoscaler is not None
        document = autoscaler.document()
        assert document is not None
        why = "its nodes are of Karpenter's NodePool general, and autoscaler.handedOver does not name the group"
        assert document["groups"][0]["closed"] == why
        assert f"pool is left alone: {why}" in document["notes"]
        assert {each["text"] for each in document["withheld"]} == {"would be removed: empty"}
        view = autoscaler.view()
        assert view is not None
        _, reasons = autoscaler.held_back(NodeName("n-0"), view.group_status[GroupName("pool")].group)
        assert why in [text for _, text in reasons]

    service.play(story)


LAST_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"


def test_a_group_that_cluster_autoscaler_lists_is_left_alone_until_its_status_is_old() -> None:
    async def story(cluster: service.Cluster) -> None:
        stamp = f"{datetime.fromtimestamp(service.EPOCH, UTC):%Y-%m-%d %H:%M:%S} +0000 UTC"
        data = {"status": "clusterWide: {}\nnodeGroups: [{name: pool}]\n"}
        body = {"metadata": {"name": "cluster-autoscaler-status", "annotations": {LAST_UPDATED: stamp}}, "data": data}
        path = "/api/v1/namespaces/kube-system/configmaps"
        assert cluster.box.api.request("POST", path, body=json.dumps(body).encode()).status == 201
        await anyio.sleep(2 * service.MINUTES)  # it is read once a minute
        cluster.add_pods(2, "first")
        await anyio.sleep(6 * service.MINUTES)
        assert cluster.nodes == 0
        assert notes(cluster) == [
            "pool is left alone: Cluster Autoscaler's status lists it (pool), and autoscaler.handedOver does not name the group"
        ]
        await anyio.sleep(5 * service.MINUTES)
        assert (cluster.nodes, notes(cluster)) == (2, [])

    service.play(story)


def notes(cluster: service.Cluster) -> list[str]:
    assert cluster.service.autoscaler_service is not None
    document = cluster.service.autoscaler_service.document()
    assert document is not None
    found: list[str] = document["notes"]
    return found


def test_handed_over_by_name_it_grows_and_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "SETTINGS", HANDED_OVER)

    async def story(cluster: service.Cluster) -> None:
        cluster.add_pods(2, "first")
        await anyio.sleep(3 * service.MINUTES)
        assert (cluster.nodes, cluster.waiting()) == (2, 0)
        cluster.drop_pods()
        await anyio.sleep(15 * service.MINUTES)
        assert cluster.nodes == 0

    service.play(story)


#: Room for one more pod is kept, on a node of its own.
SLACK = "  slack: {extraCapacity: {min: {cpu: '3'}}}\n"


@pytest.mark.parametrize(
    ("said", "grown", "left"),
    [
        ("", (3, set()), (1, set())),
        ("capabilities: [scale-down]", (3, set()), (3, {"remove node"})),
        ("capabilities: [scale-up]", (0, {"grow"}), (0, {"grow"})),
        ("capabilities: [slack]", (2, {"grow"}), (1, set())),
        ("groups: [pool]", (0, {"grow"}), (0, {"grow"})),
    ],
)
def test_what_the_settings_withhold_is_shown_and_not_done(
    monkeypatch: pytest.MonkeyPatch, said: str, grown: tuple[int, set[str]], left: tuple[int, set[str]]
) -> None:
    """`grown` and `left`: how many nodes there are with two pods and without, and what is withheld then."""

    settings = service.SETTINGS.replace("autoscaler:\n", f"shadow: {{{said}}}\nautoscaler:\n", 1)
    monkeypatch.setattr(service, "SETTINGS", settings.replace("  creation:", f"{SLACK}  creation:"))

    async def story(cluster: service.Cluster) -> None:
        cluster.add_pods(2, "first")
        await anyio.sleep(4 * service.MINUTES)
        assert (cluster.nodes, withheld(cluster)) == grown
        cluster.drop_pods()
        await anyio.sleep(15 * service.MINUTES)
        assert (cluster.nodes, withheld(cluster)) == left

    service.play(story)


def test_no_node_is_added_for_pods_of_namespaces_that_are_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "shadow: {exceptNamespaces: [mine], capabilities: [scale-down, slack]}\nautoscaler:\n"
    monkeypatch.setattr(service, "SETTINGS", service.SETTINGS.replace("autoscaler:\n", said, 1))

    async def story(cluster: service.Cluster) -> None:
        cluster.add_pods(2, "theirs")
        await anyio.sleep(4 * service.MINUTES)
        assert (cluster.nodes, cluster.waiting()) == (0, 2)
        cluster.add_pods(1, "mine", namespace="mine")
        await anyio.sleep(4 * service.MINUTES)
        assert (cluster.nodes, cluster.waiting()) == (1, 2)

    service.play(story)


def withheld(cluster: service.Cluster) -> set[str]:
    autoscaler = cluster.service.autoscaler_service
    document = None if autoscaler is None else autoscaler.document()
    assert document is not None
    return {each["kind"] for each in document.get("withheld", ())}
