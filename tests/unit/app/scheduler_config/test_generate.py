"""The generated KubeSchedulerConfiguration says what our configuration says, and passes the check."""

import pytest
import yaml

from slackwater.app.scheduler_config.check import check
from slackwater.app.scheduler_config.generate import generate
from slackwater.app.scheduler_config.transport import CertificateNames
from slackwater.app.settings import Settings, SettingsError, loads
from tests.support.configuration import HEADER

TLS = "listeners: {extender: {tls: {certFile: /tls/own.crt, keyFile: k}}}\n"
MUTUAL_TLS = (
    "listeners: {extender: {tls: {certFile: /tls/own.crt, keyFile: k, clientCAFile: /tls/clients.crt}}}\n"
    "extender: {schedulerTLS: {caFile: /ks/ca.crt, certFile: /ks/tls.crt, keyFile: /ks/tls.key, serverName: sw.svc}}\n"
)


def test_the_defaults_give_this_file() -> None:
    text = generate(Settings(), kubeconfig=None, extender_url=None)
    assert yaml.safe_load(text) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 1000, "burst": 1000},
        "profiles": [{"schedulerName": "slackwater", "percentageOfNodesToScore": 1}],
        "extenders": [
            {
                "urlPrefix": "http://127.0.0.1:10297/scheduler",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "weight": 1,
                "nodeCacheCapable": True,
                "ignorable": False,
                "httpTimeout": "5s",
            }
        ],
    }


def test_the_scheduler_elects_by_the_lease_that_the_service_follows() -> None:
    settings = loads(
        HEADER + "schedulerName: batch\nleaderElection: {mode: scheduler, leaseDuration: 20s, resourceNamespace: ns}\n"
    )
    text = generate(settings, kubeconfig=None, extender_url=None)
    assert yaml.safe_load(text)["leaderElection"] == {
        "leaderElect": True,
        "resourceNamespace": "ns",
        "resourceName": "batch",
        "leaseDuration": "20s",
        "renewDeadline": "10s",
        "retryPeriod": "500ms",
    }
    assert check(text, settings) == []


def test_another_election_than_the_one_that_is_followed_is_found() -> None:
    settings = loads(HEADER + "leaderElection: {mode: scheduler}\n")
    text = generate(settings, kubeconfig=None, extender_url=None)
    other = text.replace('resourceName: "slackwater"', 'resourceName: "another"')
    assert [(each.path, each.trap) for each in check(other, settings)] == [("leaderElection.resourceName", "other-lease")]
    none = text.replace("leaderElect: true", "leaderElect: false")
    assert [(each.path, each.trap) for each in check(none, settings)] == [("leaderElection.leaderElect", "no-election")]


def test_every_choice_is_explained_in_a_comment() -> None:
    text = generate(Settings(), kubeconfig=None, extender_url=None)
    comments = " ".join(line.strip(" #") for line in text.splitlines() if line.strip().startswith("#"))
    for word in ("percentageOfNodesToScore", "Lease", "PreferNoSchedule", "extender.ignorable", "httpTimeout"):
        assert word in comments


def test_where_slackwater_chooses_kube_scheduler_offers_it_few_nodes() -> None:
    settings = Settings()
    text = generate(settings, kubeconfig=None, extender_url=None)
    assert yaml.safe_load(text)["profiles"] == [{"schedulerName": "slackwater", "percentageOfNodesToScore": 1}]
    assert check(text, settings) == []
    more = text.replace("percentageOfNodesToScore: 1", "percentageOfNodesToScore: 30")
    for other in (more, text.replace("  percentageOfNodesToScore: 1\n", "")):
        (finding,) = check(other, settings)
        assert (finding.path, finding.trap) == ("profiles[0].percentageOfNodesToScore", "differs-from-config")


def test_scores_of_the_users_own_are_not_those_that_slackwater_chooses_by() -> None:
    settings = Settings()
    document = yaml.safe_load(generate(settings, kubeconfig=None, extender_url=None))
    document["profiles"][0] |= {
        "plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": 5}], "disabled": [{"name": "NodeAffinity"}]}},
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
    }
    text = yaml.safe_dump(document)
    found = [(finding.path, finding.trap) for finding in check(text, settings)]
    assert found == [("profiles[0]", "choice-by-default-scores")]
    assert check(text, loads(HEADER + "extender: {schedulerConfig: /etc/scheduler.yaml}")) == []
    assert check(text, loads(HEADER + "extender: {bind: true}\n"))[0].trap == "percentage"
    document["profiles"][0] |= {"plugins": {"score": {"disabled": [{"name": "NodeResourcesFit"}]}}, "pluginConfig": []}
    (finding,) = check(yaml.safe_dump(document), settings)
    assert "extender.schedulerConfig" in finding.fix


@pytest.mark.parametrize(
    "more",
    [
        "extender: {bind: true}",
        "extender: {percentageOfNodesToScore: 0}",
    ],
)
def test_where_kube_scheduler_chooses_it_offers_as_many_as_ever(more: str) -> None:
    settings = loads(HEADER + more)
    text = generate(settings, kubeconfig=None, extender_url=None)
    assert yaml.safe_load(text)["profiles"] == [{"schedulerName": "slackwater"}]
    assert check(text, settings) == []


def test_what_our_configuration_says_is_written() -> None:
    settings = loads(
        HEADER + 'schedulerName: "yes"\nextender: {weight: 3, bind: false, httpTimeout: 2s}\n'
        'listeners: {extender: {address: "[::1]:7"}}'
    )
    file = yaml.safe_load(generate(settings, kubeconfig="/etc/k: #1", extender_url=None))
    (extender,) = file["extenders"]
    assert file["profiles"] == [{"schedulerName": "yes", "percentageOfNodesToScore": 1}]
    assert file["clientConnection"]["kubeconfig"] == "/etc/k: #1"
    assert extender["urlPrefix"] == "http://[::1]:7/scheduler"
    assert "bindVerb" not in extender
    assert (extender["weight"], extender["httpTimeout"]) == (3, "2s")


@pytest.mark.parametrize(
    ("address", "want"),
    [
        ("0.0.0.0:8", "http://127.0.0.1:8/scheduler"),
        ("[::]:8", "http://[::1]:8/scheduler"),
        ("10.1.2.3:8", "http://10.1.2.3:8/scheduler"),
    ],
)
def test_the_url_is_where_a_scheduler_in_the_same_pod_reaches_the_listener(address: str, want: str) -> None:
    settings = loads(f'{HEADER}listeners: {{extender: {{address: "{address}"}}}}')
    assert yaml.safe_load(generate(settings, kubeconfig=None, extender_url=None))["extenders"][0]["urlPrefix"] == want


def test_another_url_can_be_given() -> None:
    file = yaml.safe_load(generate(Settings(), kubeconfig=None, extender_url="http://127.0.0.1:5/scheduler"))
    assert file["extenders"][0]["urlPrefix"] == "http://127.0.0.1:5/scheduler"


def test_with_tls_there_is_always_a_ca() -> None:
    file = yaml.safe_load(generate(loads(HEADER + TLS), kubeconfig=None, extender_url=None))
    (extender,) = file["extenders"]
    assert extender["urlPrefix"] == "https://127.0.0.1:10297/scheduler"
    assert extender["enableHTTPS"] is True
    assert extender["tlsConfig"] == {"caFile": "/tls/own.crt"}


def test_with_client_certificates_the_scheduler_gets_its_own() -> None:
    file = yaml.safe_load(generate(loads(HEADER + MUTUAL_TLS), kubeconfig=None, extender_url=None))
    assert file["extenders"][0]["tlsConfig"] == {
        "caFile": "/ks/ca.crt",
        "serverName": "sw.svc",
        "certFile": "/ks/tls.crt",
        "keyFile": "/ks/tls.key",
    }


def test_a_listener_that_asks_for_a_client_certificate_needs_one_for_the_scheduler() -> None:
    settings = loads(HEADER + "listeners: {extender: {tls: {certFile: a, keyFile: b, clientCAFile: c}}}")
    with pytest.raises(SettingsError) as caught:
        generate(settings, kubeconfig=None, extender_url=None)
    assert [problem.path for problem in caught.value.problems] == ["extender.schedulerTLS.certFile"]


CONFIGURATIONS = {
    "defaults": "",
    "no-bind": "extender: {bind: false}",
    "weight": "extender: {weight: 5}",
    "slow": "extender: {httpTimeout: 30s}",
    "quick": "extender: {httpTimeout: 1s}",
    "other-name": "schedulerName: default-scheduler",
    "other-port": 'listeners: {extender: {address: "127.0.0.1:1"}}',
    "every-interface": 'listeners: {extender: {address: "0.0.0.0:10297"}}',
    "another-machine": 'listeners: {extender: {address: "10.0.0.1:10297"}}',
    "tls": TLS,
    "mutual-tls": MUTUAL_TLS,
}


@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@pytest.mark.parametrize("kubeconfig", [None, "/etc/kubernetes/scheduler.conf"], ids=["in-cluster", "kubeconfig"])
def test_the_generated_file_passes_its_own_check(text: str, kubeconfig: str | None) -> None:
    settings = loads(HEADER + text)
    generated = generate(settings, kubeconfig=kubeconfig, extender_url=None)
    names = CertificateNames(dns=("sw.svc",), addresses=("127.0.0.1",))
    assert [finding for finding in check(generated, settings, certificate=names) if finding.counts] == []


@pytest.mark.parametrize("name", ["defaults", "no-bind", "slow", "quick", "other-name", "other-port", "tls", "mutual-tls"])
def test_it_also_passes_where_our_configuration_is_not_at_hand(name: str) -> None:
    generated = generate(loads(HEADER + CONFIGURATIONS[name]), kubeconfig=None, extender_url=None)
    assert [finding for finding in check(generated, None) if finding.counts] == []
