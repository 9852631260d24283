"""A bound ServiceAccount token, made and reviewed by a real API server: its node is the agent's while its Pod is there."""

from collections.abc import AsyncIterator

import pytest

from slackwater.adapters.http.authenticator import Authenticator, AuthenticatorConfig
from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.tokens import KubeTokenReviewer
from slackwater.model.ids import NodeName
from slackwater.model.permits import Caller, PermitRefusal
from slackwater.ports.clock import monotonic
from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.controlplane.talk import create
from tests.support.agents import a_request, an_agent_service
from tests.support.controlplane.stack import ControlPlane
from tests.support.permitservice import GIB, amounts
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

ACCOUNT = "autoscaler-agent"


class Agents:
    """Agent Pods of one ServiceAccount, each on a node, and their tokens."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self._accounts = f"/api/v1/namespaces/{ground.name}/serviceaccounts"

    async def account(self, name: str = ACCOUNT) -> None:
        await self.ground.create(self._accounts, {"metadata": {"name": name}})

    async def pod(self, name: str, node: str, account: str = ACCOUNT) -> str:
        """The Pod's UID."""
        body = a_pod(name)
        body["spec"]["serviceAccountName"] = account
        made = await create(self.ground.api, self.ground.pods_path, body)
        await self.ground.bind(name, node)
        return str(made["metadata"]["uid"])

    async def token(self, *, audience: str, pod: tuple[str, str] | None, account: str = ACCOUNT) -> str:
        """As a kubelet asks for it; `pod` is name and UID."""
        bound = {} if pod is None else {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod[0], "uid": pod[1]}}
        spec = {"audiences": [audience], "expirationSeconds": 600, **bound}
        made = await create(self.ground.api, f"{self._accounts}/{account}/token", {"spec": spec})
        return str(made["status"]["token"])


@pytest.fixture
async def reviewer(control_plane: ControlPlane) -> AsyncIterator[KubeTokenReviewer]:
    """As the service's own account, whose rights are part of what is tried here."""
    async with open_client(kubeconfig=str(control_plane.kubeconfig("slackwater"))) as client:
        yield KubeTokenReviewer(client, ["slackwater"])


def gate(ground: Ground, reviewer: KubeTokenReviewer) -> Authenticator:
    config = AuthenticatorConfig(service_accounts=frozenset({f"{ground.name}/{ACCOUNT}"}), review_seconds=60.0)
    return Authenticator(config, reviewer, clock=monotonic, unix_seconds=lambda: 0.0)


async def admitted(gate: Authenticator, token: str) -> Caller | PermitRefusal:
    return await gate.caller([(b"authorization", f"Bearer {token}".encode())], None)


async def test_a_bound_token_opens_the_listener_for_pods_of_its_own_node(ground: Ground, reviewer: KubeTokenReviewer) -> None:
    agents = Agents(ground)
    await agents.account()
    own, other = await ground.make_nodes(2)
    tokens = {}
    for name, node in (("agent-own", own), ("agent-other", other)):
        uid = await agents.pod(name, node)
        tokens[node] = await agents.token(audience="slackwater", pod=(name, uid))
    async with an_agent_service(authenticator=gate(ground, reviewer)) as service:
        service.permit_service.has_node(own, milli_cpu=4000, memory=16 * GIB)
        service.permit_service.has_pod("grows", on=own, reserved=amounts(1000, 4 * GIB))
        for node, want in ((own, 200), (other, 403)):
            for _ in range(2):
                answer = await service.post(a_request(name="grows"), authorization=f"Bearer {tokens[node]}")
                assert answer.status_code == want, answer.text
        assert (await service.post(a_request(name="grows"), authorization="Bearer e30.e30.c2ln")).status_code == 401


async def test_tokens_of_others_for_others_or_of_no_pod_open_nothing(ground: Ground, reviewer: KubeTokenReviewer) -> None:
    agents = Agents(ground)
    (node,) = await ground.make_nodes(1)
    for account in (ACCOUNT, "tenant"):
        await agents.account(account)
    uid, running_pod_uid = await agents.pod("agent", node), await agents.pod("tenant-pod", node, "tenant")
    guard = gate(ground, reviewer)
    expected = {
        await agents.token(audience="slackwater", pod=("agent", uid)): None,
        await agents.token(audience="elsewhere", pod=("agent", uid)): 401,
        await agents.token(audience="slackwater", pod=None): 403,
        await agents.token(audience="slackwater", pod=("tenant-pod", running_pod_uid), account="tenant"): 403,
    }
    for token, want in expected.items():
        found = await admitted(guard, token)
        assert (found.status if isinstance(found, PermitRefusal) else None) == want, found


async def test_a_token_ends_with_its_pod(ground: Ground, reviewer: KubeTokenReviewer) -> None:
    agents = Agents(ground)
    await agents.account()
    (node,) = await ground.make_nodes(1)
    token = await agents.token(audience="slackwater", pod=("agent", await agents.pod("agent", node)))
    found = await admitted(gate(ground, reviewer), token)
    assert found == Caller(node=NodeName(node), name=f"system:serviceaccount:{ground.name}:{ACCOUNT}")
    await ground.api.delete(f"{ground.pods_path}/agent", json={"gracePeriodSeconds": 0})
    # The API server keeps its own answers for ten seconds, and looks for the Pod after that.
    found = await eventually(
        lambda: admitted(gate(ground, reviewer), token),
        lambda answer: isinstance(answer, PermitRefusal),
        within_seconds=60,
        wanted="a refusal",
        every_seconds=0.5,
    )
    assert isinstance(found, PermitRefusal)
    assert found.status == 401
