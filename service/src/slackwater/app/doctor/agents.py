"""Checks whether autoscaler agents can reach the service, as far as this command can see it.

An agent looks for Pods in kube-system with the label `name=<schedulerName>`, with an IP and Ready, and connects to the port of
the agents' listener. There is no Service between them. Two things can be checked: whether the listener answers through a
port-forward, and whether NetworkPolicies let agents through. The way from a node to the Pod itself cannot be tried from here.

Of NetworkPolicies only connections between Pods of one namespace are judged, by labels and port. A rule with an `ipBlock`, a
named port, or a namespace selector that uses other labels than the name cannot be judged. It is assumed to let the connection
through, and `sure` is False.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

import anyio
import msgspec
from anyio.streams.tls import TLSAttribute, TLSStream
from cryptography import x509

from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.errors import KubeError
from slackwater.adapters.kube.objects import ApiObjects, Json
from slackwater.adapters.kube.pod_constraints import selector_of
from slackwater.adapters.kube.port_forward import forward_port
from slackwater.adapters.kube.structs import SelectorWire
from slackwater.app.doctor import Check, named, ok, problem, unknown, unseen, warning
from slackwater.app.settings import Settings
from slackwater.app.settings.serving import AgentAuthentication
from slackwater.model.ids import DAY_SECONDS, PodKey
from slackwater.model.selectors import selects
from slackwater_protocol.names import SCHEDULER_NAME_LABEL, SCHEDULER_NAMESPACE

#: The label of Neon's agents, which the chart's NetworkPolicy lets through.
AGENT: Final = {"name": "autoscaler-agent"}
_NAME: Final = "agents"
_POLICY: Final = "agents' NetworkPolicy"
_POLICIES: Final = f"/apis/networking.k8s.io/v1/namespaces/{SCHEDULER_NAMESPACE}/networkpolicies"
_SECONDS: Final = 10.0
_REQUEST: Final = b"GET / HTTP/1.1\r\nHost: slackwater\r\nConnection: close\r\n\r\n"
#: A certificate that ends sooner than this gives a warning.
_SOON_DAYS: Final = 7.0
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The result of connecting to a listener. `problem` is empty if the listener answered.

    `not_after` is when its certificate ends, None without TLS. `forbidden`: the user has no right to connect.
    """

    problem: str = ""
    forbidden: bool = False
    not_after: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether NetworkPolicies let a connection through. `policies` are the names of those that select the target Pod.

    Without such a policy everything is let through. `sure`: the rules could be judged.
    """

    admitted: bool
    sure: bool
    policies: tuple[str, ...]


#: Connects to a port inside of a Pod, with TLS or without.
Probe = Callable[[PodKey, int, bool], Awaitable[Answered]]


async def agents(
    objects: ApiObjects, settings: Settings, replicas: Sequence[Json], probe: Probe | None, now: datetime
) -> AsyncIterator[Check]:
    """Yields one check for each thing that an agent needs. `replicas` are our Pods.

    If no agent runs and NeonVM is not installed, no agent is expected, and one check says so.
    """
    running: list[Json] = []
    path, labels = f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}/pods", f"name={AGENT['name']}"
    try:
        running = [pod async for pod in objects.each(path, labels=labels) if _phase(pod) == "Running"]
    except KubeError as error:
        yield unseen(_NAME, error, f"ask somebody who may list pods in {SCHEDULER_NAMESPACE}")
    else:
        if not running and await objects.get("/apis/vm.neon.tech") is None:
            yield ok(_NAME, f"no Pod with the label name={AGENT['name']}, and no NeonVM: no agent is expected")
            return
        yield _number(running)
    yield _listener(settings)
    yield await _policies(objects, settings, replicas, running)
    for pod in replicas:
        yield await _listener_check(pod, settings, probe, now)


def _number(running: Sequence[Json]) -> Check:
    if not running:
        advice = "start autoscaler-agents: without them no VirtualMachine grows"
        return warning(_NAME, f"NeonVM is installed, and no Pod with the label name={AGENT['name']} runs", advice)
    return ok(_NAME, f"{len(running)} run")


def _listener(settings: Settings) -> Check:
    name, address = "agents' listener", settings.listeners.agents.address
    tls = "TLS" if settings.listeners.agents.tls else "plain HTTP"
    if address.host in _LOOPBACK:
        advice = f'set listeners.agents.address to "0.0.0.0:{address.port}"'
        return problem(name, f"{address} is reached from its own Pod only", advice)
    label = f"{SCHEDULER_NAME_LABEL}={settings.scheduler_name}"
    return ok(name, f"port {address.port}, {tls}; agents look for Pods with the label {label}, not for a Service")


async def _policies(objects: ApiObjects, settings: Settings, replicas: Sequence[Json], running: Sequence[Json]) -> Check:
    """Checks whether NetworkPolicies protect the agents' port and let agents through."""
    try:
        found = [each async for each in objects.each(_POLICIES)]
    except KubeError as error:
        return unseen(_POLICY, error, f"ask somebody who may list networkpolicies in {SCHEDULER_NAMESPACE}")
    target = _labels(replicas[0]) if replicas else {SCHEDULER_NAME_LABEL: settings.scheduler_name}
    source, port = _labels(running[0]) if running else AGENT, settings.listeners.agents.address.port
    seen = judge(found, source=source, target=target, namespace=SCHEDULER_NAMESPACE, port=port)
    if not seen.policies:
        if settings.listeners.agents.authentication != AgentAuthentication():
            return ok(_POLICY, "none: every Pod reaches the port, and agents have to authenticate")
        advice = "apply the one of deploy/slackwater.yaml, or configure listeners.agents.authentication"
        return warning(_POLICY, f"none selects our Pods: whoever reaches port {port} may take room for a VM", advice)
    return _judged(seen, port, any((pod.get("spec") or {}).get("hostNetwork") for pod in running))


def _judged(seen: Judgement, port: int, host_network: bool) -> Check:
    names = named(seen.policies)
    if host_network:
        advice = "see that an ipBlock has the nodes' addresses: labels do not select such agents"
        return warning(_POLICY, f"{names}: agents are in the host's network, which cannot be judged from here", advice)
    if not seen.admitted:
        advice = f"admit Pods with the label name={AGENT['name']} to port {port}"
        return problem(_POLICY, f"{names} lets no agent reach port {port}", advice)
    if not seen.sure:
        why = "it goes by addresses, named ports or labels of namespaces"
        return warning(_POLICY, f"{names}: {why}, which cannot be judged from here", "try it from an agent's Pod")
    return ok(_POLICY, f"{names} lets agents reach port {port}")


async def _listener_check(pod: Json, settings: Settings, probe: Probe | None, now: datetime) -> Check:
    """Checks whether the agents' listener in this Pod answers."""
    key = PodKey(str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"]))
    name, port, tls = "agents' port", settings.listeners.agents.address.port, settings.listeners.agents.tls is not None
    if not (pod.get("status") or {}).get("podIP") or _phase(pod) != "Running":
        advice = f"kubectl -n {key.namespace} describe pod {key.name}"
        return problem(name, f"pod {key} has no IP or does not run, so agents pass it over", advice)
    if probe is None:
        return unknown(name, f"pod {key}: no port-forward is possible here", "try it from an agent's Pod")
    answered = await probe(key, port, tls)
    if answered.forbidden:
        return unknown(name, answered.problem, "ask for the right to get and create pods/portforward in kube-system")
    if answered.problem:
        advice = "compare listeners.agents (address, tls) of the service with --config, and look at the Pod's log"
        return problem(name, f"pod {key}, port {port}: {answered.problem}", advice)
    return _certificate(ok(name, f"pod {key} answers on port {port} through a port-forward"), answered, now)


def _certificate(check: Check, answered: Answered, now: datetime) -> Check:
    """Adds the end of the listener's certificate to the check: a warning if it is near, a problem if it has passed."""
    if answered.not_after is None:
        return check
    days = (answered.not_after - now).total_seconds() / DAY_SECONDS
    seen, advice = (
        f"{check.seen}; its certificate ends on {answered.not_after:%Y-%m-%d}",
        "renew the files of listeners.agents.tls",
    )
    if days < 0:
        return problem(check.name, seen, advice)
    return warning(check.name, seen, advice) if days < _SOON_DAYS else ok(check.name, seen)


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _labels(pod: Json) -> dict[str, str]:
    return dict(pod["metadata"].get("labels") or {})


def port_forward_probe(client: KubeClient) -> Probe:
    """Returns a function that connects through the API server's port-forward. It reads the certificate without verifying it."""

    async def probe(pod: PodKey, port: int, tls: bool) -> Answered:
        async with forward_port(client, pod, port) as forwarded:
            try:
                with anyio.fail_after(_SECONDS):
                    return await _asked(forwarded.port, tls)
            except TimeoutError:
                seen = f"no answer within {_SECONDS:.0f} s"
            except (OSError, anyio.EndOfStream, anyio.BrokenResourceError) as error:  # ssl.SSLError is an OSError
                seen = str(error) or "the connection was closed without an answer"
            why = forwarded.problem or seen
            return Answered(problem=why, forbidden=f": {HTTPStatus.FORBIDDEN:d} " in why)

    return probe


async def _asked(local_port: int, tls: bool) -> Answered:
    stream = await anyio.connect_tcp("127.0.0.1", local_port)
    async with stream:
        if not tls:
            await stream.send(_REQUEST)
            data = await stream.receive()
            return Answered() if data.startswith(b"HTTP/1.") else Answered(problem=f"got {data[:20]!r}, want HTTP")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        wrapped = await TLSStream.wrap(stream, server_side=False, ssl_context=context, standard_compatible=False)
        certificate = x509.load_der_x509_certificate(wrapped.extra(TLSAttribute.peer_certificate_binary) or b"")
        # A listener that wants a client certificate ends the connection after this: it listens all the same.
        return Answered(not_after=certificate.not_valid_after_utc)


# --- what NetworkPolicies let through -------------------------------------------------------------------------------------

Labels = Mapping[str, str]
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


def judge(policies: Iterable[Json], *, source: Labels, target: Labels, namespace: str, port: int) -> Judgement:
    """Judges a TCP connection from a Pod with the labels `source` to `port` of a Pod with the labels `target`.

    Both Pods are in `namespace`.
    """
    mine = [each for each in policies if _is_ingress(each) and _selects(each["spec"].get("podSelector"), target)]
    names = tuple(str(each["metadata"]["name"]) for each in mine)
    if not mine:
        return Judgement(admitted=True, sure=True, policies=())
    rules = [rule for each in mine for rule in each["spec"].get("ingress") or ()]
    verdicts = [_rule(rule, source, namespace, port) for rule in rules]
    return Judgement(
        admitted=any(verdict is not False for verdict in verdicts),
        sure=True in verdicts or None not in verdicts,
        policies=names,
    )


def _is_ingress(policy: Json) -> bool:
    return "Ingress" in (policy["spec"].get("policyTypes") or ["Ingress"])


def _rule(rule: Json, source: Labels, namespace: str, port: int) -> bool | None:
    """True if the rule lets the connection through; None if that cannot be judged."""
    by_port = _any([_port(each, port) for each in rule.get("ports") or ()])
    by_peer = _any([_peer(each, source, namespace) for each in rule.get("from") or ()])
    if by_port is False or by_peer is False:
        return False
    return None if by_port is None or by_peer is None else True


def _any(verdicts: list[bool | None]) -> bool | None:
    """Combines the verdicts on a rule's ports or peers: one that matches is enough. An empty list means all ports or peers."""
    if not verdicts or True in verdicts:
        return True
    return None if None in verdicts else False


def _port(each: Json, port: int) -> bool | None:
    first: Any = each.get("port")
    if each.get("protocol", "TCP") != "TCP":
        return False
    if first is None:
        return True
    if isinstance(first, str):
        return None
    return bool(first <= port <= each.get("endPort", first))


def _peer(each: Json, source: Labels, namespace: str) -> bool | None:
    if "ipBlock" in each:
        return None
    if "podSelector" in each and not _selects(each["podSelector"], source):
        return False
    chosen = each.get("namespaceSelector")
    if chosen is not None and _asks_more(chosen):
        return None
    return chosen is None or _selects(chosen, {_NAMESPACE_NAME: namespace})


def _asks_more(selector: Json) -> bool:
    """True if the namespace selector uses labels other than the namespace's name."""
    keys = {*(selector.get("matchLabels") or {}), *(each["key"] for each in selector.get("matchExpressions") or ())}
    return bool(keys - {_NAMESPACE_NAME})


def _selects(selector: Json | None, labels: Labels) -> bool:
    """True if the label selector selects these labels. An empty or absent selector selects everything."""
    return selects(selector_of(msgspec.convert(selector or {}, SelectorWire)), labels)
