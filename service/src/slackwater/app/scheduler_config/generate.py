"""Generates the KubeSchedulerConfiguration of a kube-scheduler that uses this service.

In: our own configuration. Out: YAML with a comment on each value that says why. The result passes `check`. Plug-ins and their
arguments keep kube-scheduler's defaults.
"""

import json
from collections.abc import Iterator

from slackwater.app.scheduler_config.config_tree import API_VERSION, KIND
from slackwater.app.scheduler_config.profile import wanted_percentage
from slackwater.app.scheduler_config.transport import PATH
from slackwater.app.settings import Problem, Settings, SettingsError
from slackwater_protocol.durations import format_duration


def generate(settings: Settings, *, kubeconfig: str | None, extender_url: str | None) -> str:
    """Generates the text of the file.

    `kubeconfig` is the path for kube-scheduler (None: it uses its Pod's ServiceAccount). `extender_url` is the whole
    `urlPrefix` (None: the listener's address, with loopback in place of "every interface"). Raises `SettingsError` if the
    extender listener asks for a client certificate and none is configured for kube-scheduler.
    """
    url = extender_url or default_url(settings)
    lines = [*_head(settings), *_connection(kubeconfig), *_profile(settings), *_extender(settings, url)]
    return "\n".join(lines) + "\n"


def default_url(settings: Settings) -> str:
    """The `urlPrefix` under which a kube-scheduler in the same Pod reaches the extender listener."""
    listener = settings.listeners.extender
    host, _, port = str(listener.address).rpartition(":")
    if listener.address.is_every_interface:
        host = "[::1]" if ":" in listener.address.host else "127.0.0.1"
    return f"{'https' if listener.tls else 'http'}://{host}:{port}{PATH}"


def _head(settings: Settings) -> Iterator[str]:
    yield "# For a kube-scheduler that places pods through Slackwater; written by `slackwater scheduler-config`."
    yield "# After an edit: slackwater scheduler-config --check FILE"
    yield f"apiVersion: {API_VERSION}"
    yield f"kind: {KIND}"
    yield "leaderElection:"
    if settings.leader_election.mode == "scheduler":
        yield from _election(settings)
        return
    yield "  # One replica has nobody to elect. The default, true, takes the Lease kube-system/kube-scheduler, which in most"
    yield "  # clusters belongs to the cluster's own scheduler: the two would never schedule at the same time."
    yield "  leaderElect: false"


def _election(settings: Settings) -> Iterator[str]:
    election = settings.leader_election
    yield "  # Slackwater leads exactly while this Lease names the Pod of both: as leaderElection in its configuration."
    yield "  leaderElect: true"
    yield f"  resourceNamespace: {json.dumps(election.resource_namespace)}"
    yield "  # Never kube-scheduler's default, the Lease kube-scheduler: that one is the cluster's own scheduler's."
    yield f"  resourceName: {json.dumps(election.resource_name or settings.scheduler_name)}"
    yield f"  leaseDuration: {format_duration(election.lease_duration)}"
    yield f"  renewDeadline: {format_duration(election.renew_deadline)}"
    yield "  # So often the Lease is renewed and, by whoever stands by, tried: a hand-over takes about as long."
    yield f"  retryPeriod: {format_duration(election.retry_period)}"


def _connection(kubeconfig: str | None) -> Iterator[str]:
    yield "clientConnection:"
    if kubeconfig is not None:
        yield f"  kubeconfig: {json.dumps(kubeconfig)}"
    yield "  # kube-scheduler's default is 50 requests a second, and a pod that fits nowhere costs one inside the serial"
    yield "  # scheduling cycle. The API server protects itself."
    yield "  qps: 1000"
    yield "  burst: 1000"


def _profile(settings: Settings) -> Iterator[str]:
    percentage = wanted_percentage(settings)
    if not percentage:
        yield "# percentageOfNodesToScore is left out on purpose: 100 costs an extender 40 % of its throughput at 1,000 nodes."
        yield "# Where the sample hides the nodes that fit, Slackwater nominates one."
    yield "profiles:"
    yield f"- schedulerName: {json.dumps(settings.scheduler_name)}"
    if percentage:
        yield "  # extender.percentageOfNodesToScore: of 100 nodes that fit, or so many percent where that is more, Slackwater"
        yield "  # chooses the best. Where they hide the nodes that fit, it nominates one."
        yield f"  percentageOfNodesToScore: {percentage}"
    yield "extenders:"


def _extender(settings: Settings, url: str) -> Iterator[str]:
    extender = settings.extender
    yield f"- urlPrefix: {json.dumps(url)}"
    yield "  filterVerb: filter"
    yield "  prioritizeVerb: prioritize"
    yield "  preemptVerb: preempt"
    if extender.bind:
        yield "  bindVerb: bind"
    else:
        yield "  # No bindVerb: filter names one node and holds room there, and kube-scheduler binds (extender.bind: false)."
    yield "  # Scores of 0 to 10 count ten times the weight: with 1 as much as one more in-tree plug-in. More overrides"
    yield "  # PreferNoSchedule taints and preferred affinity."
    yield f"  weight: {extender.weight}"
    yield "  # Names only: Slackwater has the Nodes."
    yield "  nodeCacheCapable: true"
    if extender.ignorable:
        yield "  # extender.ignorable: while no replica of Slackwater answers, pods are placed without it."
    else:
        yield "  # While no replica of Slackwater answers, pods wait (extender.ignorable: false)."
    yield f"  ignorable: {json.dumps(extender.ignorable)}"
    yield "  # The same as extender.httpTimeout in Slackwater's configuration, which answers before it."
    yield f"  httpTimeout: {format_duration(extender.http_timeout)}"
    yield from _tls(settings)


def _tls(settings: Settings) -> Iterator[str]:
    listener = settings.listeners.extender.tls
    if listener is None:
        return
    tls = settings.extender.scheduler_tls
    if listener.client_ca_file is not None and tls.cert_file is None:
        wanted = "kube-scheduler's client certificate, since listeners.extender.tls.clientCAFile asks for one"
        raise SettingsError([Problem(path="extender.schedulerTLS.certFile", seen="nothing", wanted=wanted)])
    yield "  enableHTTPS: true"
    yield "  tlsConfig:"
    if tls.ca_file is None:
        yield "    # The listener's own certificate, as extender.schedulerTLS.caFile is not set. There has to be one: without"
        yield "    # a CA kube-scheduler verifies nothing, and says nothing."
    else:
        yield "    # There has to be one: without a CA kube-scheduler verifies nothing, and says nothing."
    yield f"    caFile: {json.dumps(tls.ca_file or listener.cert_file)}"
    for key, value in (("serverName", tls.server_name), ("certFile", tls.cert_file), ("keyFile", tls.key_file)):
        if value is not None:
            yield f"    {key}: {json.dumps(value)}"
