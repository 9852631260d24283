"""Traps of how kube-scheduler reaches the extender: TLS, certificates, URLs and time-outs, each found at its place."""

import pytest

from slackwater.app.scheduler_config.transport import CertificateNames
from slackwater.app.settings import Settings, loads
from tests.support.configuration import HEADER
from tests.unit.app.scheduler_config.files import REMOVED, X, changed, found, https, traps


def test_https_without_a_ca_verifies_nothing() -> None:
    assert traps(https()) == [(f"{X}.tlsConfig.caFile", "https-without-ca", "error")]


def test_https_by_url_alone_is_checked_against_the_systems_roots() -> None:
    file = changed(x_urlPrefix="https://127.0.0.1:10297/scheduler")
    assert traps(file) == [(f"{X}.enableHTTPS", "https-without-ca", "error")]


def test_insecure_accepts_any_certificate() -> None:
    (finding,) = found(https(insecure=True))
    assert (finding.path, finding.trap) == (f"{X}.tlsConfig.insecure", "https-not-verified")
    assert "refuses to start" not in finding.why


def test_insecure_with_a_ca_ends_the_start() -> None:
    (finding,) = found(https(insecure=True, caFile="ca"))
    assert "refuses to start" in finding.why


@pytest.mark.parametrize("ca", [{"caFile": "ca"}, {"caData": "Y2E="}], ids=["file", "data"])
def test_the_name_in_the_certificate_is_advised_where_it_is_not_known(ca: dict[str, str]) -> None:
    assert traps(https(**ca)) == [(f"{X}.tlsConfig.serverName", "https-server-name", "advice")]


def test_a_certificate_for_another_name_fails_every_call() -> None:
    names = CertificateNames(dns=("slackwater.kube-system.svc",), addresses=())
    (finding,) = found(https(caFile="ca"), None, names)
    assert (finding.path, finding.trap, finding.severity) == (f"{X}.tlsConfig.serverName", "https-server-name", "error")
    assert "valid for slackwater.kube-system.svc, not for 127.0.0.1" in finding.why


def test_a_server_name_of_the_certificate_is_accepted() -> None:
    names = CertificateNames(dns=("slackwater.kube-system.svc",), addresses=())
    assert found(https(caFile="ca", serverName="slackwater.kube-system.svc"), None, names) == []
    assert found(https(caFile="ca"), None, CertificateNames(dns=(), addresses=("127.0.0.1",))) == []


def test_https_settings_on_an_http_url_are_not_used() -> None:
    assert traps(changed(x_enableHTTPS=True)) == [(f"{X}.enableHTTPS", "https-not-used", "error")]
    assert traps(changed(x_tlsConfig={"caFile": "ca"})) == [(f"{X}.tlsConfig", "https-not-used", "error")]


@pytest.mark.parametrize("half", [{"certFile": "c"}, {"keyFile": "k"}, {"certData": "Yw=="}])
def test_half_a_client_certificate_is_not_used(half: dict[str, str]) -> None:
    names = CertificateNames(dns=(), addresses=("127.0.0.1",))
    file = https(caFile="ca", **half)
    assert traps(file, None, names) == [(f"{X}.tlsConfig", "client-certificate-incomplete", "error")]


def test_a_missing_client_certificate_is_refused_by_the_listener() -> None:
    settings = loads(HEADER + "listeners: {extender: {tls: {certFile: c, keyFile: k, clientCAFile: a}}}")
    names = CertificateNames(dns=(), addresses=("127.0.0.1",))
    assert traps(https(caFile="ca"), settings, names) == [(f"{X}.tlsConfig.certFile", "client-certificate-missing", "error")]
    assert found(https(caFile="ca", certFile="c", keyFile="k"), settings, names) == []


@pytest.mark.parametrize("key", ["token", "bearerToken", "bearerTokenFile", "headers"])
def test_no_token_is_possible(key: str) -> None:
    assert traps(changed(**{f"x_{key}": "secret"})) == [(f"{X}.{key}", "no-token", "error")]


def test_a_password_in_the_url_is_no_authentication() -> None:
    (finding,) = found(changed(x_urlPrefix="http://user:secret@127.0.0.1:10297/scheduler"))
    assert (finding.path, finding.trap) == (f"{X}.urlPrefix", "no-token")
    assert "secret" not in str(finding)


def test_plain_http_to_another_machine_can_be_read_by_others() -> None:
    file = changed(x_urlPrefix="http://10.0.0.1:10297/scheduler")
    assert traps(file) == [(f"{X}.urlPrefix", "plain-http", "warning")]


@pytest.mark.parametrize("url", ["", "127.0.0.1:10297", "ftp://h/scheduler", "http://", "http://[::1/x", "http://h:99999/x"])
def test_a_url_that_cannot_be_called(url: str) -> None:
    assert traps(changed(x_urlPrefix=url)) == [(f"{X}.urlPrefix", "url-prefix", "error")]


def test_a_query_swallows_the_verb() -> None:
    file = changed(x_urlPrefix="http://127.0.0.1:10297/scheduler?a=")
    assert traps(file) == [(f"{X}.urlPrefix", "url-prefix", "error")]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:10298/scheduler",
        "http://127.0.0.1:10297",
        "http://127.0.0.1:10297/slackwater",
        "http://127.0.0.1/scheduler",
    ],
)
def test_a_url_that_is_not_our_listener(url: str) -> None:
    assert traps(changed(x_urlPrefix=url), Settings()) == [(f"{X}.urlPrefix", "url-prefix", "error")]


@pytest.mark.parametrize("url", ["http://localhost:10297/scheduler", "http://127.0.0.1:10297/scheduler/"])
def test_another_way_to_write_our_listeners_url(url: str) -> None:
    assert found(changed(x_urlPrefix=url), Settings()) == []


@pytest.mark.parametrize("value", [REMOVED, "0s"], ids=["missing", "zero"])
def test_a_missing_time_out(value: object) -> None:
    assert traps(changed(x_httpTimeout=value)) == [(f"{X}.httpTimeout", "http-timeout", "warning")]


@pytest.mark.parametrize("value", ["1ns", "999ms", "-5s"])
def test_a_time_out_that_is_too_short(value: str) -> None:
    assert traps(changed(x_httpTimeout=value)) == [(f"{X}.httpTimeout", "http-timeout", "error")]


def test_a_time_out_that_is_too_long() -> None:
    assert traps(changed(x_httpTimeout="31s")) == [(f"{X}.httpTimeout", "http-timeout", "warning")]


@pytest.mark.parametrize("value", [5, "5", "5 seconds", True])
def test_a_time_out_that_is_no_duration(value: object) -> None:
    assert traps(changed(x_httpTimeout=value)) == [(f"{X}.httpTimeout", "refused-at-start", "error")]


def test_a_time_out_that_our_configuration_does_not_know() -> None:
    assert traps(changed(x_httpTimeout="3s"), Settings()) == [(f"{X}.httpTimeout", "differs-from-config", "warning")]
