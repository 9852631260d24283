"""Numbers and texts that pages state are those of the code, of the published benchmarks, and of the tests that they name."""

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Final

from slackwater.app.documents import settings
from slackwater.model.reasons import UNREMOVABLE_TEXTS, UnremovableReason
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
    for text in (readme, page("docs/steering.md")):
        assert (
            f"{ratio[1000]:.1f} times as many at 1,000, and {small[0]:.1f} to {small[1]:.1f} times as many at 20 and 100"
            in text
        )


def test_what_steering_says_of_speed_is_published() -> None:
    rates = {
        name: row(MEASURED, f"5000 nodes: {name}")[0]
        for name in ("kube-scheduler alone", "kube-scheduler alone, few nodes", "slackwater", "bind: true, all nodes")
    }
    alone, few, ours, binding = (f"{rate:.0f}" for rate in rates.values())
    steering = page("docs/steering.md")
    assert (
        f"With `extender.bind: true` {binding} pods a second were bound at 5,000 nodes, and {alone} by kube-scheduler alone"
        in steering
    )
    assert f"{few} pods a second at 5,000 nodes, where kube-scheduler with Slackwater bound {ours}" in steering
    assert 0.45 <= row(MEASURED, "5000 nodes: slackwater")[-1] < 0.6
    assert "half a millisecond of CPU for each pod" in steering


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
