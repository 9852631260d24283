"""What has to agree between keys: each rule by name, with its exact words."""

import pytest

from slackwater.app.settings import SettingsError, loads
from tests.support.configuration import HEADER

GROUPS = "autoscaler.nodeGroups"


def group(text: str) -> str:
    return f"autoscaler: {{nodeGroups: [{{name: a, {text}}}]}}"


CONFLICTS = {
    "a-lease-of-half-seconds": (
        "leaderElection: {leaseDuration: 12500ms}",
        'leaderElection.leaseDuration: got "12.5s", want whole seconds, as a Lease has them',
    ),
    "renewing-for-longer-than-the-lease": (
        "leaderElection: {renewDeadline: 15s}",
        'leaderElection.renewDeadline: got "15s", want less than leaderElection.leaseDuration (15s)',
    ),
    "trying-too-seldom": (
        "leaderElection: {retryPeriod: 9s}",
        'leaderElection.retryPeriod: got "9s", want less than 1/1.2 of leaderElection.renewDeadline (10s)',
    ),
    "some-pods-only-and-we-bind": (
        "extender: {bind: true}\nshadow: {exceptSchedulerNames: [batch]}",
        "shadow.exceptSchedulerNames: got names, with extender.bind: true: kube-scheduler would bind none of the other pods by "
        "itself, want extender.bind: false",
    ),
    "some-pods-only-and-removals-of-all": (
        "shadow: {exceptNamespaces: [a], capabilities: [slack]}\nautoscaler: {enabled: true}",
        "shadow.exceptNamespaces: got names, and nodes are removed: that evicts pods of all namespaces and schedulers, want "
        "scale-down in shadow.capabilities, or autoscaler.scaleDown.enabled: false",
    ),
    "some-pods-only-and-slack-for-all": (
        "shadow: {exceptNamespaces: [a], capabilities: [scale-down]}\nautoscaler: {enabled: true}",
        "shadow.exceptNamespaces: got names, and slack is kept: its room is for the pods of all namespaces and schedulers, "
        "want slack in shadow.capabilities, or featureGates.ResourceSlack: false",
    ),
    "two-listeners-one-socket": (
        'listeners: {ops: {address: "127.0.0.1:10297"}}',
        'listeners.ops.address: got "127.0.0.1:10297", want another port than listeners.extender.address (127.0.0.1:10297)',
    ),
    "every-interface-takes-the-port-of-loopback": (
        'listeners: {agents: {address: "0.0.0.0:10299"}, ops: {address: "127.0.0.1:10299"}}',
        'listeners.ops.address: got "127.0.0.1:10299", want another port than listeners.agents.address (0.0.0.0:10299)',
    ),
    "agents-certificates-without-a-ca": (
        "listeners: {agents: {authentication: {certificates: {}}, tls: {certFile: c, keyFile: k}}}",
        "listeners.agents.tls.clientCAFile: got nothing, want what signs agents' certificates",
    ),
    "agents-tokens-for-everybody-to-read": (
        "listeners: {agents: {authentication: {tokens: {serviceAccounts: [a/b]}}}}",
        "listeners.agents.tls: got nothing, want TLS where agents send tokens",
    ),
    "certificate-without-key": (
        "extender: {schedulerTLS: {certFile: c}}",
        "extender.schedulerTLS.keyFile: got nothing, want the private key of certFile",
    ),
    "key-without-certificate": (
        "extender: {schedulerTLS: {keyFile: k}}",
        "extender.schedulerTLS.certFile: got nothing, want the certificate of keyFile",
    ),
    "pods-bound-past-us": (
        "extender: {ignorable: true, bind: true}",
        "extender.ignorable: got true, with extender.bind: true: kube-scheduler would bind by itself whenever our bind fails, "
        "want false, or extender.bind: false",
    ),
    "expander-twice": (
        "autoscaler: {expanders: [random, least-waste, random]}",
        'autoscaler.expanders[2]: got "random" a second time, want each expander once',
    ),
    "group-name-twice": (
        "autoscaler: {nodeGroups: [{name: a}, {name: b}, {name: a}]}",
        f'{GROUPS}[2].name: got "a", want another name than {GROUPS}[0].name',
    ),
    "min-above-max": (group("minSize: 4, maxSize: 3"), f"{GROUPS}[0].minSize: got 4, want <= {GROUPS}[0].maxSize (3)"),
    "no-server-of-an-external-provider": (
        group("provider: externalgrpc"),
        f"autoscaler.providers.externalgrpc: got nothing, want the server that {GROUPS}[0].provider needs",
    ),
    "kwok-group-of-two-names": (
        group("id: b"),
        f'{GROUPS}[0].id: got "b", want nothing: a kwok group has no other name',
    ),
    "weather-of-a-real-cloud": (
        group("provider: clusterapi, kwok: {failing: 0.1}"),
        f"{GROUPS}[0].kwok: got a mapping, want nothing where another provider is used",
    ),
    "shares-above-one": (
        group("kwok: {failing: 0.5, silent: 0.75}"),
        f"{GROUPS}[0].kwok.failing: got 0.5, want failing and silent of 1 in all, not 1.25",
    ),
    "client-certificate-without-key": (
        'autoscaler: {providers: {externalgrpc: {address: "a:1", tls: {certFile: c}}}}',
        "autoscaler.providers.externalgrpc.tls.keyFile: got nothing, want what belongs to certFile",
    ),
    "taint-twice": (
        group("template: {spec: {taints: [{key: k, effect: NoSchedule}, {key: k, value: v, effect: NoSchedule}]}}"),
        f"{GROUPS}[0].template.spec.taints[1]: got k:NoSchedule a second time, want each key and effect once, as in a Node",
    ),
    "allocatable-above-capacity": (
        group("template: {status: {capacity: {memory: 1Gi}, allocatable: {memory: 1025Mi}}}"),
        f'{GROUPS}[0].template.status.allocatable.memory: got "1025Mi", want <= '
        f"{GROUPS}[0].template.status.capacity.memory (1Gi)",
    ),
}


@pytest.mark.parametrize(("text", "want"), CONFLICTS.values(), ids=CONFLICTS)
def test_a_conflict_is_refused(text: str, want: str) -> None:
    with pytest.raises(SettingsError) as caught:
        loads(HEADER + text)
    assert [str(problem) for problem in caught.value.problems] == [want]


@pytest.mark.parametrize(
    "text",
    [
        'listeners: {ops: {address: "127.0.0.2:10297"}}',
        "extender: {schedulerTLS: {certFile: c, keyFile: k}}",
        "listeners: {agents: {authentication: {tokens: {serviceAccounts: [a/b]}}, tls: {certFile: c, keyFile: k}}}",
        "listeners: {agents: {authentication: {certificates: {}}, tls: {certFile: c, keyFile: k, clientCAFile: a}}}",
        "autoscaler: {expanders: [priority, least-waste]}",
        group("minSize: 3, maxSize: 3"),
        group("kwok: {failing: 0.5, silent: 0.5}"),
        group("provider: clusterapi, id: MachinePool/default/a"),
        'autoscaler: {providers: {externalgrpc: {address: "a:1", tls: {}}}, nodeGroups: [{name: a, provider: externalgrpc}]}',
        group("template: {spec: {taints: [{key: k, effect: NoSchedule}, {key: k, effect: NoExecute}]}}"),
        group("template: {status: {capacity: {cpu: 1}, allocatable: {cpu: 1000m, memory: 1Gi}}}"),
    ],
)
def test_what_agrees_is_accepted(text: str) -> None:
    loads(HEADER + text)


@pytest.mark.parametrize(
    ("text", "want_paths"),
    [
        ("autoscaler: {nodeGroups: [{name: a, minSize: 9000, maxSize: x}]}", [f"{GROUPS}[0].maxSize"]),
        (
            'listeners: {agents: {address: x}, ops: {address: "127.0.0.1:10299"}}',
            ["listeners.agents.address"],
        ),
    ],
    ids=["size", "address"],
)
def test_a_default_that_stands_in_for_a_refused_value_conflicts_with_nothing(text: str, want_paths: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        loads(HEADER + text)
    assert [problem.path for problem in caught.value.problems] == want_paths
