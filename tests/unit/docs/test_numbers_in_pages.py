"""Every number of the pages' prose is checked: as a default, as a value of the code, of a test or of a published result, as one
of a kind that one rule checks, or as a figure of the short table of those measured by hand."""

import json
import re
from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Final

import pytest

from deploy.documents.pages import settings
from slackwater.adapters.http import application, authenticator
from slackwater.adapters.kube import event_recorder
from slackwater.app.settings import Settings
from slackwater.controllers.migration import state as migration
from slackwater.controllers.preemption import activations, preemptors
from slackwater.model.reasons import UnremovableReason
from slackwater.runtime import wait_events
from slackwater.runtime.planner import process
from slackwater_protocol.durations import parse_duration, seconds
from tests.bench.__main__ import BENCHES, ON_REQUEST
from tests.unit.docs import stated_elsewhere, stated_limits
from tests.unit.docs.page_numbers import KINDS, TEXTS, Span, Stated, numbers
from tests.unit.docs.test_names_in_pages import each_page

STATED: Final = (*stated_limits.STATED, *stated_elsewhere.STATED)
_BY_NAME: Final = {page.stem: text for page, text in TEXTS.items()}
#: `section.key` (5 m), `key` (50,000); also with "is ... old" between, and after "the same" in a table.
_DEFAULT: Final = re.compile(
    r"`([a-zA-Z.]+)`(?: is [^`.]{0,30}| old)?(?: \(| \| the same, )(\d[\d,.]* ?(?:[smh]|minutes|hours)?)(?=[;,)]| \|)"
)


def page(name: str) -> str:
    return " ".join(Path(name).read_text().split())


@pytest.mark.parametrize("stated", STATED, ids=lambda stated: f"{stated.pages}: {stated.text}")
def test_a_text_that_pages_state_has_the_values_of_the_code(stated: Stated) -> None:
    assert [name for name in stated.pages.split() if stated.rendered not in _BY_NAME[name]] == [], stated.rendered


@each_page
def test_every_number_of_a_page_is_checked(page: Path) -> None:
    text = TEXTS[page]
    checked = {at for start, end in _checked(page.stem, text) for at in range(start, end)}
    unchecked = [text[max(0, each.start() - 40) : each.end() + 40] for each in numbers(text) if each.start() not in checked]
    assert unchecked == [], "compare them in stated_limits.py or stated_elsewhere.py, or leave them out"


def _checked(name: str, text: str) -> Iterator[Span]:
    for stated in STATED:
        if name in stated.pages.split():
            yield from stated.spans(text)
    for kind in KINDS:
        yield from kind(text)
    yield from (found.span(2) for found in _DEFAULT.finditer(text) if _defaults_of(found[1]))


def test_a_number_that_nobody_checks_is_found() -> None:
    text = "It waits 17 s, answers 503, by [ADR 12](adr/0012-x.md), since 1.36; `make soak DURATION=5m` takes 5 minutes, not 6."
    checked = {at for kind in KINDS for start, end in kind(text) for at in range(start, end)}
    assert [each[0] for each in numbers(text) if each.start() not in checked] == ["17 s", "6"]
    stated = Stated("page", "waits {} s and 4 times", (3,))
    assert [text[start:end] for text in ["it waits 3 s and 4 times"] for start, end in stated.spans(text)] == ["3"]


_TARGETS: Final = set(re.findall(r"^([a-z-]+):", Path("Makefile").read_text(), re.MULTILINE))


def test_figures_that_were_measured_by_hand_are_few_and_name_their_command() -> None:
    assert len(stated_elsewhere.MEASURED) < 25
    for _, command, day in stated_elsewhere.MEASURED:
        bench = re.match(r"python -m tests\.bench --only ([a-z-]+)", command)
        assert bench[1] in BENCHES | ON_REQUEST if bench else command.split()[1] in _TARGETS, command
        assert date.fromisoformat(day) > date(2026, 11, 1)


def test_three_pages_have_results_and_name_the_commands_that_repeat_them() -> None:
    marks = re.compile(r"<!-- results: (.*?) -->.*?<!-- end of results -->", re.DOTALL)
    found = {page.stem: mark for page in TEXTS for mark in marks.findall(page.read_text())}
    assert found.pop("benchmarks") == "written by `python -m tests.bench --write-docs`"
    assert {name: {*re.findall(r"`make ([a-z-]+)(?: [A-Z]+=1)?`", mark)} & _TARGETS for name, mark in found.items()} == {
        "versions": {"oracle", "cluster", "canary"},
        "CONTRIBUTING": {"size"},
    }


def test_the_page_of_agents_has_every_status_that_they_get() -> None:
    assert {*re.findall(r"^\| (\d{3}) \|", TEXTS[Path("docs/agents.md")], re.MULTILINE), "200"} == {*stated_elsewhere.AGENT}


@each_page
def test_the_ports_of_commands_are_those_of_the_listeners(page: Path) -> None:
    listeners = Settings().listeners
    known = {str(each.address.port) for each in (listeners.extender, listeners.agents, listeners.ops)}
    assert set(re.findall(r"\b102[89]\d\b", page.read_text())) <= known


def _defaults() -> dict[str, str]:
    """The default of each key by its path, as the tables of docs/configuration.md show it."""
    found: dict[str, str] = {}
    for part in settings().split("### ")[1:]:
        at = "" if part.startswith("Top") else part.split("`")[1].replace("[]", "") + "."
        found |= {at + key: default for key, default in re.findall(r"^\| `(\w+)` \| `?(.*?)`? \|", part, re.MULTILINE)}
    return found


def _defaults_of(key: str) -> set[str]:
    return {default for name, default in _DEFAULTS.items() if f".{name}".endswith(f".{key}")}


_DEFAULTS: Final = _defaults()


def _amount(text: str) -> Fraction:
    """A number, or a duration in seconds; as YAML, Go or English writes it."""
    text = text.strip('"').replace(",", "").replace(" minutes", "m").replace(" hours", "h").replace(" ", "")
    return Fraction(text) if re.fullmatch(r"[\d.]+", text) else Fraction(seconds(parse_duration(text)))


def test_a_default_that_a_page_states_is_the_keys_default() -> None:
    stated = [(path, *found) for path, text in TEXTS.items() for found in _DEFAULT.findall(text) if _defaults_of(found[0])]
    wrong = [each for each in stated if _amount(each[2]) not in {_amount(default) for default in _defaults_of(each[1])}]
    assert wrong == []
    assert len(stated) >= 4


def test_what_pages_say_of_speed_in_words_is_published() -> None:
    assert round(stated_elsewhere.row("filter, all fit: slackwater")[0]) == 1, "about a millisecond"
    assert 0.45 <= stated_elsewhere.row("5000 nodes: slackwater")[-1] < 0.6
    assert "half a millisecond of CPU for each pod" in page("docs/extender.md")


def test_outputs_that_simulate_shows_have_the_texts_of_the_reasons() -> None:
    text = Path("docs/simulate.md").read_text()
    [entries] = re.findall(r'"kept":(\[.*?\])', text)
    shown = [(kept["reason"], kept["detail"]) for kept in json.loads(entries)]
    shown += re.findall(r"^\d+ +([A-Z]\w+) +\S+: \S+: (.*)$", text, re.MULTILINE)
    assert len(shown) >= 2
    assert [(reason, detail) for reason, detail in shown if detail != UnremovableReason(reason).text] == []


_AUTHENTICATION: Final = authenticator.AuthenticatorConfig()
_WAITING: Final = wait_events.WaitEventsPolicy()


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
    assert (application._CROWDED, application._SHARE) == (0.75, 0.5)
    assert "| of one address, once 3/4 are taken | half | half |" in page("docs/operations.md")
