"""`slackwater doctor` on an API server of prepared answers: what it calls a problem, and what it advises."""

import json
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.tls import TLSStream

from slackwater.adapters.api_calls import Call, Params, Response
from slackwater.app.doctor import Check
from slackwater.app.doctor.agents import Answered, Probe, _asked
from slackwater.app.doctor.consolidation import judged
from slackwater.app.doctor.examination import examine
from slackwater.app.offline.cluster import read_cluster
from slackwater.app.settings import Settings, loads
from slackwater.cli.main import main
from tests.support.manifests import owned_by
from tests.support.pki import Pki

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 24, 6, 30, tzinfo=UTC)
ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/slackwater"
PODS = "/api/v1/namespaces/kube-system/pods"
LEASES = "/apis/coordination.k8s.io/v1/leases"
NODES = "/api/v1/nodes"
STATUS = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
LAST = "cluster-autoscaler.kubernetes.io/last-updated"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/kube-system/networkpolicies"


#: kube-scheduler asks us about the pods of its default profile.
OURS = 'extenders: [{urlPrefix: "http://127.0.0.1:10297/scheduler", filterVerb: filter, prioritizeVerb: prioritize, weight: 1}]'


class Prepared:
    """Answers by path; what has no answer is not found, or forbidden if `forbidden` has it. Reviews allow everything that is
    not in `denied`."""

    def __init__(
        self,
        answers: Mapping[str, Any],
        *,
        date: str = "Tue, 24 Nov 2026 06:30:01 GMT",
        denied: str = "",
        forbidden: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._answers = {**ALL_WELL, **answers}
        self._date = date
        self._denied = denied
        self._forbidden = forbidden

    async def send(self, call: Call) -> Response:
        if self._forbidden(call.path):
            return self._answer({"reason": "Forbidden", "message": "no"}, 403)
        if call.path.endswith("accessreviews"):
            assert call.body is not None
            attributes = json.loads(call.body)["spec"]["resourceAttributes"]
            allowed = f"{attributes['verb']} {attributes['resource']}" != self._denied
            return self._answer({"status": {"allowed": allowed}}, 201)
        found = self._answers.get(call.path)
        if found is not None and (wanted := call.params.get("labelSelector")):
            name, _, value = wanted.partition("=")
            found = _list(*(each for each in found["items"] if each["metadata"].get("labels", {}).get(name) == value))
        return self._answer({}, 404) if found is None else self._answer(found, 200)

    def _answer(self, body: Any, status: int) -> Response:
        text = body if isinstance(body, str) else json.dumps(body)
        return Response(status, text.encode(), {"Date": self._date})

    async def stream(self, path: str, *, params: Params, silence_seconds: float) -> AsyncGenerator[list[bytes], None]:
        raise AssertionError("nothing is watched")
        yield []


def _list(*items: Any) -> Any:
    return {"metadata": {}, "items": list(items)}


def a_lease(name: str, renewed: str) -> Any:
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "x", "renewTime": renewed}}


def a_pod(*, ready: bool = True, name: str = "slackwater", app: str = "slackwater", namespace: str = "kube-system") -> Any:
    labels = {"name": name} | ({"app.kubernetes.io/name": app} if app else {})
    status = {"conditions": [{"type": "Ready", "status": str(ready)}], "phase": "Running", "podIP": "10.0.0.7"}
    return {"metadata": {"name": f"{name}-1", "namespace": namespace, "labels": labels}, "spec": {}, "status": status}


def a_node(kubelet: str) -> Any:
    return {"metadata": {"name": "n", "uid": "n"}, "status": {"nodeInfo": {"kubeletVersion": kubelet}}}


def flagz(**flags: str) -> Any:
    return {"flags": {"authorization-mode": "[Node RBAC]", **{name.replace("_", "-"): value for name, value in flags.items()}}}


def gates(**values: bool) -> str:
    return "".join(f'kubernetes_feature_enabled{{name="{name}",stage="BETA"}} {int(on)}\n' for name, on in values.items())


def some_settings(text: str = "") -> Settings:
    return loads(f"apiVersion: config.slackwater.dev/v1alpha1\nkind: SlackwaterConfiguration\n{text}")


async def found(api: Prepared, settings: Settings | None = None, *, probe: Probe | None = None) -> dict[str, Check]:
    return {check.name: check async for check in examine(api, settings or Settings(), lambda: NOW, probe=probe)}


_PARTS = [{"name": name} for name in ("pods/binding", "pods/status", "pods/eviction", "pods/resize")]
#: A cluster without the service in which nothing is wrong.
ALL_WELL: dict[str, Any] = {
    "/version": {"gitVersion": "v1.36.3", "emulationMajor": "1", "emulationMinor": "36"},
    "/flagz": flagz(),
    "/metrics": gates(PodLevelResources=True, NodeDeclaredFeatures=True, StorageCapacityScoring=False),
    "/api/v1": {"resources": _PARTS},
    "/apis/policy/v1": {},
    "/apis/events.k8s.io/v1": {},
    "/apis/coordination.k8s.io/v1": {},
    LEASES: _list(),
    PODS: _list(),
    NODES: _list(a_node("v1.36.3"), a_node("v1.35.1")),
    "/api/v1/pods": _list(),
    POLICIES: _list(),
}
INSTALLED = {ACCOUNT: {"metadata": {}}, PODS: _list(a_pod(ready=True))}


async def test_a_cluster_in_which_all_is_well() -> None:
    checks = await found(Prepared(INSTALLED))
    assert {check.state for check in checks.values()} == {"ok"}
    assert checks["clock"].seen == "1 s from the API server's"
    assert checks["the service's rights"].seen.startswith("all ")


async def test_where_it_is_not_installed_that_is_said_with_what_to_do() -> None:
    checks = await found(Prepared({}))
    assert (checks["installation"].state, "helm install" in checks["installation"].advice) == ("warning", True)
    assert "the service's rights" not in checks


@pytest.mark.parametrize(
    ("api", "name", "state", "words"),
    [
        (Prepared({**INSTALLED, "/version": {"gitVersion": "v1.33.1"}}), "Kubernetes", "warning", "v1.33.1"),
        (Prepared(INSTALLED, date="Tue, 24 Nov 2026 06:31:00 GMT"), "clock", "problem", "60 s from"),
        (Prepared(INSTALLED, date="soon"), "clock", "warning", "no date"),
        (Prepared(INSTALLED, denied="list nodes"), "your rights", "problem", "you may not list nodes"),
        (Prepared(INSTALLED, denied="watch configmaps"), "the service's rights", "problem", "watch configmaps"),
        (Prepared({**INSTALLED, PODS: _list(a_pod(ready=False))}), "installation", "problem", "0 of 1 Pods"),
        (Prepared({**INSTALLED, PODS: _list()}), "installation", "problem", "0 of 0 Pods"),
        (Prepared({"/version": {"gitVersion": "v1.36.3", "emulationMinor": "35"}}), "Kubernetes", "warning", "behaves as 1.35"),
        (Prepared({"/flagz": flagz(authorization_mode="[ABAC]")}), "API server's flags", "warning", "RBAC is not among"),
        (Prepared({"/flagz": flagz(watch_cache="false")}), "API server's flags", "warning", "watch-cache is false"),
        (
            Prepared({"/flagz": flagz(disable_admission_plugins="[Priority]")}),
            "API server's flags",
            "warning",
            "Priority is off",
        ),
        (Prepared({"/flagz": "authorization-mode [RBAC]"}), "API server's flags", "unknown", "does not answer /flagz"),
        (Prepared({"/metrics": "up 1"}), "feature gates", "unknown", "names no feature gates"),
        (Prepared({"/metrics": gates(PodLevelResources=False)}), "feature gates", "warning", "PodLevelResources is off at"),
        (Prepared({"/api/v1": {"resources": _PARTS[1:]}}), "APIs", "problem", "not served: pods/binding"),
        (Prepared({"/apis/policy/v1": None}), "APIs", "problem", "not served: policy/v1"),
        (Prepared({NODES: _list(a_node("v1.32.9"))}), "component versions", "warning", "kubelets v1.32.9 (1 node)"),
        (Prepared({LEASES: _list(a_lease("n1", "2026-11-24T06:31:00Z"))}), "other clocks", "problem", "n1 by 59 s"),
        (
            Prepared({"/api/v1/pods": _list(a_pod(), a_pod())}),
            "other instances",
            "problem",
            "2 Pods of schedulerName slackwater, and leaderElection.mode is none",
        ),
    ],
)
async def test_what_is_wrong_is_named(api: Prepared, name: str, state: str, words: str) -> None:
    check = (await found(api))[name]
    assert (check.state, words in check.seen, bool(check.advice)) == (state, True, True)
    assert check.seen.count("cannot be seen") <= 1


@pytest.mark.parametrize(
    ("renewed", "enabled", "state"),
    [("2026-11-24T06:29:55Z", True, "problem"), ("2026-11-24T06:29:55Z", False, "ok"), ("2026-11-24T05:00:00Z", True, "ok")],
)
async def test_another_autoscaler_is_a_problem_only_if_both_look_after_nodes(renewed: str, enabled: bool, state: str) -> None:
    settings = some_settings(f"autoscaler: {{enabled: {str(enabled).lower()}}}")
    api = Prepared({**INSTALLED, LEASES: _list(a_lease("cluster-autoscaler", renewed))})
    assert (await found(api, settings))["other autoscalers"].state == state


async def test_autoscalers_without_a_lease_show_in_their_status_and_node_pools() -> None:
    status = {"metadata": {"annotations": {LAST: "2026-11-24 06:28:00.5 +0000 UTC"}}}
    pools = {"preferredVersion": {"groupVersion": "karpenter.sh/v1"}}
    api = Prepared(
        {
            STATUS: status,
            "/apis/karpenter.sh": pools,
            "/apis/karpenter.sh/v1/nodepools": _list({"metadata": {"name": "general"}}),
        }
    )
    settings = some_settings("autoscaler: {enabled: true}")
    checks = [check async for check in examine(api, settings, lambda: NOW) if check.name == "other autoscalers"]
    assert [check.state for check in checks] == ["problem", "problem"]
    assert "Cluster Autoscaler writes its status ConfigMap" in checks[0].seen
    assert "Karpenter has 1 NodePools, and may run outside of the cluster" in checks[1].seen


@pytest.mark.parametrize(
    ("more", "state", "seen"),
    [
        ("", "warning", "left alone: b: node n-b of it has the annotation slackwater.dev/owned-by: them, c: Cluster"),
        ("handedOver: [b]", "warning", "handed over, and marked: b: node n-b"),
        ("handedOver: [d]", "problem", "autoscaler.handedOver names d: no such groups"),
    ],
)
async def test_groups_that_others_mark_are_named(more: str, state: str, seen: str) -> None:
    settings = some_settings(f"autoscaler: {{enabled: true, nodeGroups: [{{name: a}}, {{name: b}}, {{name: c}}], {more}}}")
    nodes = [a_node("v1.36.3") | {"metadata": _marked(name, by)} for name, by in (("a", "slackwater"), ("b", "them"))]
    metadata = {"annotations": {LAST: "2026-11-24 06:28:00.5 +0000 UTC"}}
    api = Prepared({NODES: _list(*nodes), STATUS: {"metadata": metadata, "data": {"status": "nodeGroups: [{name: c}]"}}})
    check = (await found(api, settings))["groups of others"]
    assert (check.state, check.seen.startswith(seen)) == (state, True), check.seen
    hidden = Prepared({NODES: _list(*nodes)}, forbidden=STATUS.__eq__)
    assert (await found(hidden, settings))["groups of others"].seen.startswith("cannot be seen: you may not get configmaps")


async def test_node_pools_of_the_provider_karpenter_say_whether_they_are_handed_over() -> None:
    """Then Karpenter is no other autoscaler, and each NodePool is named once, whatever its variants."""
    settings = some_settings("autoscaler: {enabled: true, providers: {karpenter: {}}}")
    claims = [
        {
            "metadata": {
                "name": name,
                "labels": {"karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": name},
            },
            "status": {"allocatable": {"cpu": "2", "memory": "8Gi"}, "providerID": f"x://{name}", "nodeName": name},
        }
        for name in ("m5.large", "c5.large")
    ]
    node = a_node("v1.36.3") | {"metadata": {"name": "n", "uid": "n", "labels": {"karpenter.sh/nodepool": "general"}}}
    api = Prepared(
        {
            NODES: _list(node),
            "/apis/karpenter.sh": {"preferredVersion": {"groupVersion": "karpenter.sh/v1"}},
            "/apis/karpenter.sh/v1/nodepools": _list({"metadata": {"name": "general"}}),
            "/apis/karpenter.sh/v1/nodeclaims": _list(*claims),
        }
    )
    checks = await found(api, settings)
    assert checks["other autoscalers"].state == "ok"
    check = checks["groups of others"]
    seen = "left alone: karpenter/general: it is Karpenter's NodePool general; handing it over needs spec.limits.nodes"
    assert (check.state, check.seen.startswith(seen), check.seen.count("general")) == ("warning", True, 2), check.seen


def _marked(group: str, by: str) -> Any:
    labels = {"slackwater.dev/node-group": group}
    return {"name": f"n-{group}", "uid": group, "labels": labels, "annotations": {"slackwater.dev/owned-by": by}}


@pytest.mark.parametrize(
    ("more", "file", "state", "seen"),
    [
        ("exceptNamespaces: [shop]", "", "ok", "pods of shop"),
        ("exceptNamespaces: [shop, shpo]", "", "problem", "names shpo, which the cluster does not have"),
        ("exceptSchedulerNames: [batch]", "", "warning", "names batch, which no pod has"),
        ("exceptNamespaces: [shop]", "profiles: []", "problem", "none of the extenders is Slackwater"),
        ("exceptSchedulerNames: [batch]", OURS, "problem", "has no profile batch"),
        ("exceptSchedulerNames: [default-scheduler]", OURS, "warning", "which no pod has"),
    ],
)
async def test_pods_are_handed_over_that_are_there_and_asked_about(
    more: str, file: str, state: str, seen: str, tmp_path: Path
) -> None:
    text = f"shadow: {{{more}}}\n"
    if file:
        path = tmp_path / "scheduler.yaml"
        path.write_text(f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{file}\n")
        text += f"extender: {{schedulerConfig: {path}}}\n"
    api = Prepared({"/api/v1/namespaces/shop": {"metadata": {"name": "shop"}}})
    check = (await found(api, some_settings(text)))["pods handed over"]
    assert (check.state, seen in check.seen) == (state, True), check.seen


async def test_another_scheduler_name_is_another_instance() -> None:
    api = Prepared({"/api/v1/pods": _list(a_pod(), a_pod(name="batch", namespace="ops"))})
    check = (await found(api, some_settings("autoscaler: {enabled: true}")))["other instances"]
    assert (check.state, check.seen) == ("warning", "scheduler batch in ops")
    assert (await found(api))["other instances"].state == "ok"


@pytest.mark.parametrize(("tag", "state"), [("v1.36.3", "ok"), ("v1.35.0", "ok"), ("v1.37.1", "problem")])
async def test_a_kube_scheduler_is_not_newer_than_the_api_server(tag: str, state: str) -> None:
    pod = a_pod()
    pod["spec"]["containers"] = [{"name": "kube-scheduler", "image": f"registry.example:5000/kube-scheduler:{tag}@sha256:0"}]
    check = (await found(Prepared({**INSTALLED, PODS: _list(pod)})))["component versions"]
    assert (check.state, f"kube-scheduler {tag}" in check.seen) == (state, True)


async def test_gates_that_the_configuration_states_are_compared() -> None:
    api = Prepared({"/metrics": gates(PodLevelResources=False)})
    stated = some_settings('scheduler: {featureGates: "PodLevelResources=false"}')
    assert (await found(api, stated))["feature gates"].state == "ok"
    assert '"PodLevelResources=false"' in (await found(api))["feature gates"].advice


async def test_what_the_user_may_not_see_is_unknown_and_named() -> None:
    hidden = {"/flagz", "/metrics", NODES, LEASES, PODS, ACCOUNT, "/api/v1/pods", POLICIES}
    checks = await found(Prepared(INSTALLED, forbidden=hidden.__contains__))
    want = {"API server's flags": "get /flagz", "feature gates": "get /metrics", "component versions": f"list {NODES}"}
    want |= {"other autoscalers": f"list {LEASES}", "installation": f"get {ACCOUNT}", "agents": f"list {PODS}"}
    for name, call in want.items():
        check = checks[name]
        assert (check.state, check.seen) == ("unknown", f"cannot be seen: you may not {call}")
        assert check.advice


async def test_the_installed_configuration_holds_where_none_is_named() -> None:
    text = "apiVersion: config.slackwater.dev/v1alpha1\nkind: SlackwaterConfiguration\nschedulerName: batch\n"
    path = "/api/v1/namespaces/kube-system/configmaps/slackwater"
    api = Prepared({**INSTALLED, path: {"data": {"slackwater.yaml": text}}, PODS: _list(a_pod(name="batch"))})
    checks = {check.name: check async for check in examine(api, None, lambda: NOW)}
    assert checks["configuration"].seen == "ConfigMap kube-system/slackwater, as the service is installed"
    assert "1 of 1 Pods with the label name=batch are ready" in checks["installation"].seen
    wrong = Prepared({path: {"data": {"slackwater.yaml": f"{text}nonsense: 1"}}})
    checks = {check.name: check async for check in examine(wrong, None, lambda: NOW)}
    assert (checks["configuration"].state, "nonsense" in checks["configuration"].seen) == ("problem", True)


async def test_a_slow_answer_is_no_clock_that_is_off() -> None:
    times = iter([NOW - timedelta(seconds=20), NOW + timedelta(seconds=1)])
    checks = {check.name: check async for check in examine(Prepared({}), Settings(), lambda: next(times, NOW))}
    assert (checks["clock"].state, checks["clock"].seen) == ("ok", "0 s from the API server's")


AGENT = a_pod(name="autoscaler-agent", app="")
WITH_AGENTS = {**INSTALLED, PODS: _list(a_pod(), AGENT)}


def a_policy(*ingress: Any, selects: Mapping[str, str] | None = None) -> Any:
    spec = {"podSelector": {"matchLabels": selects or {"name": "slackwater"}}, "policyTypes": ["Ingress"]}
    return {"metadata": {"name": "p"}, "spec": {**spec, "ingress": list(ingress)}}


async def answers(pod: object, port: int, tls: bool) -> Answered:
    assert (str(pod), port, tls) == ("kube-system/slackwater-1", 10299, False)
    return Answered()


NAMESPACE_NAME = "kubernetes.io/metadata.name"
NOT_OF_TEAM_A = {"key": "team", "operator": "NotIn", "values": ["a"]}
TEAM_A, WEB = {"matchLabels": {"team": "a"}}, {"matchLabels": {"name": "web"}}
FROM_AGENTS = [{"podSelector": {"matchLabels": {"name": "autoscaler-agent"}}}]


@pytest.mark.parametrize(
    ("policies", "state"),
    [
        ([], "warning"),
        ([a_policy(selects={"name": "other"})], "warning"),
        ([a_policy()], "problem"),
        ([a_policy({"from": FROM_AGENTS, "ports": [{"port": 10299}]})], "ok"),
        ([a_policy({"from": FROM_AGENTS, "ports": [{"port": 10000, "endPort": 10300}]})], "ok"),
        ([a_policy({"from": FROM_AGENTS, "ports": [{"port": 10298}]})], "problem"),
        ([a_policy({"from": FROM_AGENTS, "ports": [{"port": 10299, "protocol": "UDP"}]})], "problem"),
        ([a_policy({"from": [{"podSelector": {"matchLabels": {"name": "web"}}}]})], "problem"),
        (
            [a_policy({"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]})],
            "problem",
        ),
        ([a_policy({"from": [{"namespaceSelector": {}}]})], "ok"),
        ([a_policy({"from": [{"namespaceSelector": {"matchLabels": {"team": "a"}}}]})], "warning"),
        ([a_policy({"from": [{"namespaceSelector": {"matchExpressions": [NOT_OF_TEAM_A]}}]})], "warning"),
        ([a_policy({"from": [{"namespaceSelector": TEAM_A, "podSelector": WEB}]})], "problem"),
        ([a_policy({"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]})], "warning"),
        ([a_policy({"ports": [{"port": "agents"}]})], "warning"),
        ([a_policy(), a_policy({})], "ok"),
    ],
)
async def test_network_policies_are_judged_for_agents(policies: list[Any], state: str) -> None:
    checks = await found(Prepared({**WITH_AGENTS, POLICIES: _list(*policies)}), probe=answers)
    assert checks["agents' NetworkPolicy"].state == state
    assert (checks["agents"].seen, checks["agents' port"].state) == ("1 run", "ok")


async def test_agents_in_the_hosts_network_are_not_judged_by_labels() -> None:
    agent = {**AGENT, "spec": {"hostNetwork": True}}
    api = Prepared({**WITH_AGENTS, PODS: _list(a_pod(), agent), POLICIES: _list(a_policy())})
    check = (await found(api, probe=answers))["agents' NetworkPolicy"]
    assert (check.state, "the host's network" in check.seen, "ipBlock" in check.advice) == ("warning", True, True)


@pytest.mark.parametrize(
    ("answered", "state", "words"),
    [
        (Answered(problem="connection refused"), "problem", "connection refused"),
        (Answered(problem="connect x: 403 Forbidden: no", forbidden=True), "unknown", "cannot be seen: connect x"),
        (Answered(not_after=NOW + timedelta(days=90)), "ok", "its certificate ends on 2027-02-22"),
        (Answered(not_after=NOW + timedelta(days=3)), "warning", "ends on 2026-11-27"),
        (Answered(not_after=NOW - timedelta(days=1)), "problem", "ends on 2026-11-23"),
    ],
)
async def test_the_agents_listener_is_asked(answered: Answered, state: str, words: str) -> None:
    async def probe(pod: object, port: int, tls: bool) -> Answered:
        return answered

    check = (await found(Prepared(WITH_AGENTS), probe=probe))["agents' port"]
    assert (check.state, words in check.seen) == (state, True)


async def test_a_listener_on_loopback_is_out_of_reach_of_agents() -> None:
    settings = some_settings('listeners: {agents: {address: "127.0.0.1:10299"}}')
    check = (await found(Prepared(WITH_AGENTS), settings, probe=answers))["agents' listener"]
    assert (check.state, check.advice) == ("problem", 'set listeners.agents.address to "0.0.0.0:10299"')


async def test_a_pod_without_an_address_is_passed_over_by_agents() -> None:
    pod = a_pod()
    del pod["status"]["podIP"]
    check = (await found(Prepared({**WITH_AGENTS, PODS: _list(pod, AGENT)}), probe=answers))["agents' port"]
    assert (check.state, "has no IP" in check.seen) == ("problem", True)


async def test_without_agents_and_neonvm_nothing_is_expected_of_them() -> None:
    assert [name for name in await found(Prepared(INSTALLED)) if name.startswith("agents")] == ["agents"]
    check = (await found(Prepared({**INSTALLED, "/apis/vm.neon.tech": {}}), probe=answers))["agents"]
    assert (check.state, check.seen) == ("warning", "NeonVM is installed, and no Pod with the label name=autoscaler-agent runs")


async def _listening(speak: Callable[[SocketStream], Any], tls: bool) -> Answered:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, speak)
        answered = await _asked(listener.extra(SocketAttribute.local_port), tls)
        tasks.cancel_scope.cancel()
    return answered


@pytest.mark.parametrize(("line", "problem"), [(b"HTTP/1.1 400 Bad Request\r\n\r\n", ""), (b"SSH-2.0\r\n", "want HTTP")])
async def test_a_listener_that_speaks_http_has_answered(line: bytes, problem: str) -> None:
    async def speak(stream: SocketStream) -> None:
        async with stream:
            assert (await stream.receive()).startswith(b"GET / HTTP/1.1")
            await stream.send(line)

    assert problem in (await _listening(speak, tls=False)).problem


async def test_the_certificate_of_a_listener_is_read(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pki.server(expired=True).configure_cert(context)

    async def speak(stream: SocketStream) -> None:
        async with stream:
            await TLSStream.wrap(stream, server_side=True, ssl_context=context, standard_compatible=False)
            await anyio.sleep_forever()

    ends = (await _listening(speak, tls=True)).not_after
    assert ends is not None
    assert ends < datetime.now(UTC), "an expired one too: it is looked at, and not trusted"


@pytest.mark.parametrize("command", [["doctor"], ["drains"], ["history", "pod", "shop/web"]])
def test_where_nothing_answers_it_is_said_what_to_look_at(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        """{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}],
        contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}]}"""
    )
    assert main([*command, "--kubeconfig", str(kubeconfig)]) == 4
    assert "is it up, and is it the one you mean? --kubeconfig and --context name another cluster" in capsys.readouterr().err


def a_node_of(group: str, name: str, cpu: int) -> Any:
    labels = {"slackwater.dev/node-group": group, "kubernetes.io/hostname": name}
    amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    meta = {"name": name, "uid": name, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"}
    info = {"kubeletVersion": "v1.36.3"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": ready, "nodeInfo": info}
    return {"metadata": meta, "spec": {}, "status": status}


def a_web_pod(on: str) -> Any:
    meta = {"name": f"web-{on}", "namespace": "default", "uid": f"web-{on}", **owned_by("web")}
    spec = {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}


def as_listed(kind: str, items: list[Any]) -> Any:
    return {"apiVersion": "v1", "kind": f"{kind}List", **_list(*items)}


GROUPS = """
autoscaler:
  enabled: true
  nodeGroups: [{name: large, price: "1.00"}]
  consolidation: {enabled: %s}
"""


@pytest.mark.parametrize(("on", "words"), [("false", "off (autoscaler.consolidation.enabled); it would"), ("true", "on; next")])
async def test_it_says_what_consolidation_changes_or_would_change(on: str, words: str) -> None:
    nodes = [a_node_of("large", f"n{at}", 32) for at in range(3)]
    pods = [a_web_pod(f"n{at}") for at in range(3)]
    api = Prepared({NODES: as_listed("Node", nodes), "/api/v1/pods": as_listed("Pod", pods)})
    checks = await found(api, some_settings(GROUPS % on))
    check = checks["consolidation"]
    assert check.state == "ok"
    assert check.seen.startswith(words)
    assert check.seen.endswith("2 nodes go and 0 come, 2 evictions, 3.00 to 1.00 USD an hour (configured prices)")


async def test_without_an_autoscaler_nothing_is_said_of_consolidation_and_a_refusal_is_named() -> None:
    assert "consolidation" not in await found(Prepared({}))
    forbidden = Prepared({}, forbidden=lambda path: path == "/api/v1/pods")
    check = (await found(forbidden, some_settings(GROUPS % "true")))["consolidation"]
    assert (check.state, "may not list pods" in check.seen) == ("unknown", True)


def test_planning_ends_in_time() -> None:
    nodes = [a_node_of("large", f"n{at}", 32) for at in range(3)]
    pods = [a_web_pod(f"n{at}") for at in range(3)]
    pages = [json.dumps(as_listed(kind, items)) for kind, items in (("Node", nodes), ("Pod", pods))]
    cluster = read_cluster(*(msgspec.Raw(page.encode()) for page in pages))
    assert judged(cluster, some_settings(GROUPS % "true"), seconds=-1.0).seen.endswith("(planning was cut short)")


async def test_a_shadow_is_examined_as_one() -> None:
    settings = some_settings("mode: shadow\nautoscaler: {enabled: true, nodeGroups: [{name: a}]}")
    account = dict[str, Any]({"/api/v1/namespaces/kube-system/serviceaccounts/slackwater": {}})
    own, karpenter = a_pod(name="slackwater-shadow"), a_lease("karpenter-leader-election", "2026-11-24T06:30:00.000000Z")
    pods = {PODS: _list(own), "/api/v1/pods": _list(own, a_pod())}
    checks = await found(Prepared({**account, **pods, LEASES: _list(karpenter)}, denied="create pods"), settings)
    assert {check.state for check in checks.values()} == {"ok"}, [str(check) for check in checks.values()]
    assert "1 of 1 Pods with the label name=slackwater-shadow are ready" in checks["installation"].seen
    assert "is a shadow beside it" in checks["other autoscalers"].seen
    assert checks["agents"].seen.startswith("a shadow answers none")


async def test_a_service_does_not_mind_a_shadow_beside_it() -> None:
    settings = some_settings("autoscaler: {enabled: true, nodeGroups: [{name: a}]}")
    checks = await found(Prepared({"/api/v1/pods": _list(a_pod(), a_pod(name="slackwater-shadow"))}), settings)
    assert checks["other instances"].seen == "none"


@pytest.mark.parametrize(
    ("text", "state", "words"),
    [
        ("", "ok", "nothing"),
        ("mode: shadow", "ok", "everything"),
        (
            "shadow: {capabilities: [scale-down], groups: [a]}\nautoscaler: {nodeGroups: [{name: a}]}",
            "ok",
            "scale-down, group a: decided",
        ),
        ("shadow: {groups: [b]}\nautoscaler: {nodeGroups: [{name: a}]}", "problem", "names b, which"),
    ],
)
async def test_what_is_withheld_is_said(text: str, state: str, words: str) -> None:
    check = (await found(Prepared({}), some_settings(text)))["withheld"]
    assert (check.state, words in check.seen) == (state, True), check
