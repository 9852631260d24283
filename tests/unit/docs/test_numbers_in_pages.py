"""Numbers and texts that pages state are those of the code, of the published benchmarks, and of the tests that they name."""

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Final

import pytest

from deploy.documents.pages import settings
from slackwater.adapters.http import (
    agents,
    authenticator,
    bounded_http,
    connection_limiter,
    extender,
    http_server,
    ops_throttle,
    tls_listener,
    uvicorn_listener,
    whatif,
)
from slackwater.adapters.http.dashboard import stream, update_frames
from slackwater.adapters.kube import event_recorder, reflector
from slackwater.cluster.nodegroups.limits import NodeGroupPolicy
from slackwater.controllers.audit import loop as audit
from slackwater.controllers.history import policy as history
from slackwater.controllers.migration import migration_choice
from slackwater.controllers.migration import state as migration
from slackwater.controllers.policy import Policy, PreemptionPolicy
from slackwater.controllers.preemption import activations, preemptors
from slackwater.controllers.scaledown.drains.node_view import DrainLimits
from slackwater.model import pod_constraints
from slackwater.model.reasons import UNREMOVABLE_TEXTS, UnremovableReason
from slackwater.runtime import intake, wait_events
from slackwater.runtime.autoscaler import plan_events
from slackwater.runtime.dashboard import pending, series, view
from slackwater.runtime.planner import children, process
from slackwater_protocol.durations import parse_duration, seconds
from tests.unit.docs.test_names_in_pages import PAGES, prose
from tests.unit.docs.test_site import row

MEASURED: Final = Path("docs/benchmarks.md").read_text().partition("## Results")[2]
#: `section.key` (5 m), `key` (50,000); also with "is ... old" between.
_STATED: Final = re.compile(r"`([a-zA-Z.]+)`(?: is [^`.]{0,30}| old)? \((\d[\d,.]* ?(?:[smh]|minutes|hours)?)[;,)]")


def page(name: str) -> str:
    return " ".join(Path(name).read_text().split())


def _defaults() -> dict[str, str]:
    """The default of each key by its path, as the tables of docs/configuration.md show it."""
    found: dict[str, str] = {}
    for part in settings().split("### ")[1:]:
        at = "" if part.startswith("Top") else part.split("`")[1].replace("[]", "") + "."
        found |= {at + key: default for key, default in re.findall(r"^\| `(\w+)` \| `?(.*?)`? \|", part, re.MULTILINE)}
    return found


def _amount(text: str) -> Fraction:
    """A number, or a duration in seconds; as YAML, Go or English writes it."""
    text = text.strip('"').replace(",", "").replace(" minutes", "m").replace(" hours", "h").replace(" ", "")
    return Fraction(text) if re.fullmatch(r"[\d.]+", text) else Fraction(seconds(parse_duration(text)))


def test_a_default_that_a_page_states_is_the_keys_default() -> None:
    defaults, stated = _defaults(), 0
    for path in PAGES:
        for key, value in _STATED.findall(" ".join(prose(path).split())):
            found = {default for name, default in defaults.items() if f".{name}".endswith(f".{key}")}
            if found:
                stated += 1
                assert _amount(value) in {_amount(default) for default in found}, f"{path}: `{key}` ({value}), is {found}"
    assert stated >= 7


def test_what_the_readme_says_of_speed_is_published() -> None:
    readme = page("README.md")
    plan = row(MEASURED, "plan: 22,000 pending x 10 groups, 200 kinds")[0]
    assert f"plans nodes for 22,000 pending pods among ten groups in {plan:.2f} s" in readme
    assert round(row(MEASURED, "filter, all fit: slackwater")[0]) == 1
    assert "A call with 5,000 node names takes about a millisecond" in readme
    ratio = {nodes: row(MEASURED, f"{nodes} nodes: slackwater / kube-scheduler alone")[0] for nodes in (20, 100, 1000, 5000)}
    small = sorted((ratio[20], ratio[100]))
    assert f"places {ratio[5000]:.1f} times as many pods a second as alone at 5,000 nodes" in readme
    for text in (readme, page("docs/extender.md")):
        assert (
            f"{ratio[1000]:.1f} times as many at 1,000, and {small[0]:.1f} to {small[1]:.1f} times as many at 20 and 100"
            in text
        )


def test_what_the_page_on_the_extender_says_of_speed_is_published() -> None:
    rates = {
        name: row(MEASURED, f"5000 nodes: {name}")[0]
        for name in ("kube-scheduler alone", "kube-scheduler alone, few nodes", "slackwater", "bind: true, all nodes")
    }
    alone, few, ours, binding = (f"{rate:.0f}" for rate in rates.values())
    extender = page("docs/extender.md")
    assert (
        f"With `extender.bind: true` {binding} pods a second were bound at 5,000 nodes, and {alone} by kube-scheduler alone"
        in extender
    )
    assert f"{few} pods a second at 5,000 nodes, where kube-scheduler with Slackwater bound {ours}" in extender
    assert 0.45 <= row(MEASURED, "5000 nodes: slackwater")[-1] < 0.6
    assert "half a millisecond of CPU for each pod" in extender


def test_the_sizes_of_tests_that_pages_state_are_theirs() -> None:
    drains = re.findall(r"^CLUSTERS = (\d+)$", Path("tests/oracle/test_drains.py").read_text(), re.MULTILINE)
    assert f"{drains[0]} clusters in CI" in page("docs/scaledown.md")
    scale_up = Path("tests/cluster/test_scale_up.py").read_text()
    [(nodes, pods)] = re.findall(r'"SLACKWATER_TEST_SCALE_UP", "(\d+),(\d+)"', scale_up)
    [by_machines] = re.findall(r"^    nodes, per_node, batch = (\d+),", scale_up, re.MULTILINE)
    said = f"`make cluster` runs the same with {nodes} nodes and {int(pods):,} pods, and {by_machines} nodes by `clusterapi`"
    assert said in page("docs/autoscaler.md")
    scale_down = Path("tests/cluster/controllers/test_scale_down.py").read_text()
    [(nodes, pods)] = re.findall(r"^_SIZES: Final = \(\((\d+), (\d+),", scale_down, re.MULTILINE)
    assert f"{nodes} nodes and {pods} pods in CI" in page("docs/scaledown.md")


def test_outputs_that_simulate_shows_have_the_texts_of_the_reasons() -> None:
    text = Path("docs/simulate.md").read_text()
    [entries] = re.findall(r'"kept":(\[.*?\])', text)
    shown = [(kept["reason"], kept["detail"]) for kept in json.loads(entries)]
    shown += re.findall(r"^\d+ +([A-Z]\w+) +\S+: \S+: (.*)$", text, re.MULTILINE)
    assert len(shown) >= 2
    assert [
        (reason, detail) for reason, detail in shown if detail != UNREMOVABLE_TEXTS.get(UnremovableReason(reason), detail)
    ] == []


_AUTHENTICATION: Final = authenticator.AuthenticatorConfig()
_AGENTS: Final = agents.AgentLimits()
_AUDIT: Final = audit.AuditConfig()
_HISTORY: Final = history.HistoryPolicy()
_WAITING: Final = wait_events.WaitEventsPolicy()
_POLICY: Final = Policy()
_REFUSALS: Final = NodeGroupPolicy().refusal_backoff
_MIGRATIONS: Final = migration_choice._BACKOFF
_KIB, _MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("operations", f"| connections | {uvicorn_listener._MAX_CONNECTIONS:,}; more: 503 |"),
        ("operations", f"more: 503 | {bounded_http.MAX_CONNECTIONS}; more: 503 |"),
        ("operations", f"| path and headers | {http_server._MAX_HEAD_BYTES // _KIB} KiB; 431 |"),
        ("operations", f"what-if {whatif.LARGEST_BODY // _MIB} MiB; 413"),
        ("operations", f"| all bodies together | {extender._BODIES} times that; 503 |"),
        ("operations", f"{bounded_http.ARRIVE_SECONDS:g} s; 408 | {_AGENTS.body_seconds:g} s; 408 |"),
        ("operations", f"| {uvicorn_listener._KEEP_ALIVE_SECONDS // 60} min | {uvicorn_listener._APP_KEEP_ALIVE_SECONDS} s |"),
        ("operations", f"answers unread for {http_server.UNREAD_SECONDS:g} s"),
        ("operations", f"{ops_throttle._MOST_WAITING} wait for at most {ops_throttle._WAIT_SECONDS:g} s"),
        ("operations", f"| {stream.MOST_LISTENERS}, for {stream.LONGEST_SECONDS / 60:g} min each |"),
        ("operations", f"{process._MOST_WAITING - 1} wait for at most {process._QUESTION_WAIT_SECONDS:g} s"),
        ("operations", f"an answer takes at most {process.ANSWER_SECONDS:g} s; 503"),
        ("operations", f"| `maxWait` + {_AGENTS.answer_seconds:g} s; 503 |"),
        ("operations", f"checks the sums of {audit._NODES / _AUDIT.sample_seconds:g} nodes each second"),
        ("operations", f"a newer version for more than {_AUDIT.settle_seconds:g} s"),
        ("operations", f"at most one write a second, and {_HISTORY.bytes_per_second // _KIB} KiB a second"),
        ("operations", f"looked for again every {reflector.ReflectorConfig().absent_seconds:g} s"),
        ("SECURITY", f"{uvicorn_listener._MAX_CONNECTIONS:,}, then 503 |"),
        ("SECURITY", f"| {bounded_http.MAX_CONNECTIONS}, then 503 |"),
        ("SECURITY", f"| {bounded_http.MAX_HEAD_BYTES // _KIB} KiB, 431 |"),
        ("SECURITY", f"| TLS handshake | {tls_listener.HANDSHAKE_SECONDS:g} s;"),
        ("vertical", f"looks for its resource types every {reflector.ReflectorConfig().absent_seconds:g} s"),
        ("agents", f"At most {_AUTHENTICATION.max_reviews} tokens are reviewed at a time"),
        ("dashboard", f"| open dashboards | {stream.MOST_LISTENERS};"),
        ("dashboard", f"{view.MOST:,}, with the total number; {pending.MOST_GROUPS} groups of pending pods"),
        ("dashboard", f"{update_frames.MOST_DECISIONS} decisions; {view.MOST_NAMES} pods of a drain"),
        (
            "dashboard",
            f"an hour in steps of {series.HOUR_STEP_SECONDS} s, a day in steps of {series.DAY_STEP_SECONDS // 60} min",
        ),
        ("dashboard", f"after {stream.HEARTBEAT_SECONDS:g} s without a message"),
        ("simulate", f"the next ones wait {process._QUESTION_WAIT_SECONDS:g} s at most (503)"),
        ("simulate", f"two minutes and have {children.LARGEST_ANSWER // _MIB} MiB"),
        ("simulate", f"a body of more than {whatif.LARGEST_BODY // _MIB} MiB with 413"),
        ("explain", f"up to {process._MOST_WAITING - 1} more wait, for {process._QUESTION_WAIT_SECONDS:g} s at most (503)"),
        ("extender", f"with more than {pod_constraints.MOST_RULES} rules"),
        (
            "extender",
            f"{_POLICY.in_flight_seconds:g} s after filter ({_POLICY.volumes_seconds / 60:g} min for pods with claims",
        ),
        ("ARCHITECTURE", f"are applied {intake._SLICE} at a time"),
        ("autoscaler", f"one loop writes at most {plan_events._MOST_EVENTS} of each"),
        ("scaledown", f"still there {DrainLimits().removal_seconds / 60:g} minutes after it had agreed"),
        ("scaledown", f"no removal for {_REFUSALS.first_seconds / 60:g} minutes, twice as long after each further refusal"),
        ("scaledown", f"at most {_REFUSALS.longest_seconds / 3600:g} hours, and its drains"),
        (
            "vertical",
            f"waits {_MIGRATIONS.first_seconds:g} s, then longer, at most {_MIGRATIONS.longest_seconds / 60:g} minutes",
        ),
        ("extender", f"stays for {PreemptionPolicy().timeout_seconds / 60:g} minutes, or the node goes"),
        ("extender", f"up to {preemptors._MOST_CANDIDATE_NODES} while a budget would be violated"),
    ],
)
def test_a_limit_that_a_page_states_is_the_codes(name: str, want: str) -> None:
    assert want in page(f"docs/{name}.md")


def test_limits_that_pages_state_in_words_are_the_codes() -> None:
    words = {2: "two", 5: "five", 8: "eight"}
    minutes = {"operations": process.IDLE_SECONDS, "explain": process.IDLE_SECONDS}
    for name, value in minutes.items():
        assert f"after {words[round(value / 60)]} minutes without a" in page(f"docs/{name}.md")
    explain, preemption = page("docs/explain.md"), page("docs/extender.md")
    assert f"sends {words[_WAITING.events]} of these Events a second" in explain
    assert (_WAITING.again_seconds, _WAITING.rest) == (600, 9), "every ten minutes; at most a tenth of its time"
    assert f"the best {words[preemptors._FEW]} are examined" in preemption
    assert f"at most {words[activations._MOST_AGAIN]} times" in preemption
    assert f"Equal Events within {words[round(event_recorder.RecorderConfig().merge_seconds / 60)]} minutes" in page(
        "docs/operations.md"
    )
    assert f"cached for {words[round(_AUTHENTICATION.keep_seconds / 60)]} minutes at most" in page("docs/SECURITY.md")
    assert migration._BEGIN_SECONDS == 300
    assert "given up after five minutes" in page("docs/faults.md")
    assert (connection_limiter._CROWDED, connection_limiter._SHARE) == (0.75, 0.5)
    assert "| of one address, once 3/4 are taken | half | half |" in page("docs/operations.md")
