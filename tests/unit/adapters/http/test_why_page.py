"""An explanation as a page: the sentence first, equal reasons once, no raw values, and everything escaped."""

import re
from html import escape

import msgspec

from slackwater.adapters.http.dashboard.explain_page import merged, prefers_html, sentence, why_page


def a_reason(text: str, nodes: int, **more: object) -> dict[str, object]:
    return {"code": "c", "plugin": "p", "text": text, "nodes": nodes, "resource": None, "short": {}, "objects": [], **more}


def an_explanation(*reasons: dict[str, object], **more: object) -> dict[str, object]:
    basic = {"object": "pod default/web", "state": "pending", "remedies": [], "minimal": [], "facts": {}}
    return {**basic, "reasons": list(reasons), **more}


def test_the_sentence_has_the_state_and_the_reason_of_most_nodes() -> None:
    found = an_explanation(
        a_reason("node(s) were unschedulable", 1), a_reason("Insufficient resources", 8, detail="Insufficient cpu")
    )
    assert sentence(found) == "Pod default/web is pending: Insufficient cpu on 8 nodes, and 1 other reason."


def test_equal_reasons_are_one_and_their_nodes_are_added() -> None:
    [found] = merged([a_reason("full", 3, objects=["pod a"]), a_reason("full", 2, objects=["pod b", "pod a"])])
    assert (found["nodes"], found["objects"]) == (5, ["pod a", "pod b"])


def test_a_page_has_no_raw_values_and_escapes_names() -> None:
    facts = {"node": None, "heldSeconds": 33.652619077000054, "requests": {"milliCPU": 2500, "bytes": 3 << 30}}
    found = an_explanation(a_reason("<b>bad</b>", 1), facts=facts, remedies=[{"change": "add <one>"}])
    page = why_page(msgspec.json.encode(found), "/explain/pods/default/web")
    assert "33.65" not in page
    assert "null" not in page
    assert "None" not in page
    assert "{" not in page
    assert "2.5 cpu, 3 GiB memory" in page
    assert "&lt;b&gt;bad&lt;/b&gt;" in page
    assert page.index("add &lt;one&gt;") < page.index("<h2>Reasons"), "what would help comes first"


def test_a_page_ends_with_what_happened_last() -> None:
    entry = {
        "at": "2026-11-24T06:30:00.000Z",
        "text": "evicted from <n1>, because the node was being removed",
        "by": "slackwater",
    }
    page = why_page(msgspec.json.encode(an_explanation(history=[entry])), "/explain/pods/default/web")
    want = "<time>2026-11-24T06:30:00.000Z</time> evicted from &lt;n1&gt;, because the node was being removed (by slackwater)"
    assert want in page.partition("What happened last")[2]
    assert "What happened last" not in why_page(msgspec.json.encode(an_explanation()), "/explain/pods/default/web")


def test_a_pause_is_the_first_line_of_a_page_and_said_once() -> None:
    paused = "Paused: scale-up since noon by <b>anna</b>. `slackwater resume` ends it."
    page = why_page(msgspec.json.encode(an_explanation(remarks=[paused, "another"])), "/explain/pods/default/web", (paused, ""))
    assert re.findall(r'<p class="not\w+">(.*?)</p>', page) == [escape(paused), "another"]
    assert page.index(escape(paused)) < page.index("<h1>")


def test_a_browser_gets_a_page_and_a_program_json() -> None:
    assert prefers_html("text/html,application/xhtml+xml,*/*;q=0.8")
    assert not prefers_html("*/*")
    assert not prefers_html("application/json")
    assert not prefers_html("")


def test_a_placed_pods_page_says_what_could_be_instead_and_that_it_is_as_of_now() -> None:
    other = {"node": "n<2>", "score": 812, "difference": {"ImageLocality": 3, "NodeResourcesFit": -20}}
    instead = {"asOf": "now", "score": 829, "feasible": 7, "nodes": [other], "reasons": [a_reason("Insufficient cpu", 4)]}
    found = an_explanation(a_reason("the pod has a node", 0), facts={"node": "n1"}, instead=instead)
    page = why_page(msgspec.json.encode(found), "/explain/pods/default/web")
    assert "As of now, not of the time when the pod was placed. n1 scores 829." in page
    assert "7 other nodes would take the pod, the best 1:" in page
    assert "n&lt;2&gt;" in page
    assert "NodeResourcesFit -20, ImageLocality +3" in page, "the largest difference comes first"
    assert "<strong>4 nodes</strong>: Insufficient cpu" in page


def test_where_no_other_node_would_take_the_pod_there_is_no_empty_table() -> None:
    instead = {"asOf": "now", "score": 829, "feasible": 0, "nodes": [], "reasons": []}
    page = why_page(msgspec.json.encode(an_explanation(facts={"node": "n1"}, instead=instead)), "/explain/pods/default/web")
    assert "0 other nodes would take the pod." in page
    assert "<table" not in page


def test_a_removable_nodes_page_says_what_removing_it_would_do() -> None:
    facts = {"moves": [{"pod": "default/web-1", "node": "n2"}], "memory": {"total": 32 << 30, "reserved": 0}}
    found = an_explanation(a_reason("the node can be removed", 1), object="node n1", state="removable", facts=facts)
    page = why_page(msgspec.json.encode(found), "/explain/nodes/n1")
    assert "would move 1 pod:" in page
    assert 'href="/#/why/pod/default/web-1"' in page
    assert 'href="/#/why/node/n2"' in page
    assert "32 GiB total" in page
    empty = an_explanation(object="node n1", state="removable", facts={"moves": []})
    assert "would move no pod" in why_page(msgspec.json.encode(empty), "/explain/nodes/n1")
