"""`slackwater report`: the figures of both sides, the decisions that mattered most, the page, and logs that are not whole."""

import json
import time
import tracemalloc
from collections.abc import Iterable, Sequence
from decimal import Decimal
from html.parser import HTMLParser
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from slackwater.app.counterfactual.lines import (
    SIDES,
    AnyLine,
    Decision,
    ModelCheck,
    NodeCame,
    NodeWent,
    Sample,
    Waits,
    written,
)
from slackwater.app.html_page import page_of
from slackwater.app.report.answer import ReportAnswer
from slackwater.app.report.log_files import LONGEST_LINE, LogFiles, log_files
from slackwater.app.report.report import NoReport, report_answer
from slackwater.app.report.series import MOST_BUCKETS, Series
from slackwater.app.report.view import view_of
from slackwater.cli.main import main
from tests.support.counterfactual_logs import BEGAN, START, days_of_a_cluster
from tests.support.http_answers import answering

HOUR = 3600
DOLLAR = 1_000_000
EVIL = '<script>alert("&")</script>'


def samples(at: float, real: int, ours: int | None, *, evictions: int = 0) -> list[AnyLine]:
    """Of nodes that cost a dollar an hour; None: the side is not written."""
    counts = zip(SIDES, (real, ours), strict=True)
    return [
        Sample(at=at, side=side, nodes=count, micros=DOLLAR * count, pending=count, evictions=evictions)
        for side, count in counts
        if count is not None
    ]


def minutes(begin: float, end: float, real: int, ours: int | None) -> list[AnyLine]:
    """A sample a minute, from the hour `begin` of the log up to the hour `end`."""
    at = [START + HOUR * begin + 60 * minute for minute in range(round(60 * (end - begin)) + 1)]
    return [line for each in at for line in samples(each, real, ours)]


def came(node: str, side: Any, hour: float = 0, decision: int | None = None) -> NodeCame:
    return NodeCame(at=START + HOUR * hour, side=side, node=node, micros=DOLLAR, decision=decision)


def went(node: str, side: Any, hour: float, decision: int | None = None) -> NodeWent:
    return NodeWent(at=START + HOUR * hour, side=side, node=node, decision=decision)


def decided(number: int, side: Any, action: Any, hour: float, **more: Any) -> Decision:
    by = "Karpenter" if side == "real" else ""
    return Decision(at=START + HOUR * hour, side=side, number=number, action=action, by=by, nodes=1, **more)


#: Two nodes. After an hour ours removes b, after two the real side does so, too. After three the real side buys c.
STORY: list[AnyLine] = [
    BEGAN,
    *(came(node, side) for side in SIDES for node in ("a", "b")),
    *minutes(0, 1, 2, 2),
    decided(1, "ours", "remove", 1, group="pool", why="it was empty", pods=3, example="shop/web-1"),
    went("b", "ours", 1, 1),
    *minutes(1, 2, 2, 1),
    decided(2, "real", "remove", 2, group="pool", why="consolidated"),
    went("b", "real", 2, 2),
    *minutes(2, 3, 1, 1),
    decided(3, "real", "add", 3, group="pool", why=EVIL, example="shop/api-0"),
    came("c", "real", 3, 3),
    Waits(at=START + 3 * HOUR, side="real", seconds={0: {100: 19, 120: 1}, 5: {0: 20}}),
    Waits(at=START + 3 * HOUR, side="ours", seconds={0: {90: 40}}),
    ModelCheck(
        at=START + 3 * HOUR,
        seconds=HOUR,
        modelled_waits={100: 1},
        real_waits={100: 1},
        modelled_evictions=9,
        real_evictions=10,
        modelled_empty_nodes=0,
        real_empty_nodes=0,
    ),
    *minutes(3, 4, 2, 1),
]


def of(lines: Iterable[AnyLine], since: float | None = None) -> ReportAnswer:
    return report_answer(LogFiles([("log", BytesIO(written(lines)))]), since_seconds=since)


def moneys(answer: ReportAnswer) -> dict[int, Decimal]:
    return {each.number: Decimal(each.money) for each in answer.decisions.listed}


def run(capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> tuple[str, str]:
    try:
        status = main(["report", *options])
    except SystemExit as end:
        status = int(str(end.code))
    out, err = capsys.readouterr()
    assert status == code, err
    return out, err


def a_file(folder: Path, lines: Iterable[AnyLine] = STORY) -> Path:
    file = folder / "shadow.log"
    file.write_bytes(written(lines))
    return file


def test_each_side_has_its_hours_money_and_evictions() -> None:
    answer = of(STORY)
    real, ours = answer.sides
    assert (real.node_hours, real.money, real.per_hour) == (7.0, "7.00", "1.75")
    assert (ours.node_hours, ours.money, ours.per_hour) == (5.0, "5.00", "1.25")
    assert answer.saved is not None
    assert (answer.saved.money, answer.saved.per_hour, answer.saved.per_month) == ("2.00", "0.50", "360.00")
    assert (real.pending[0].pods, real.pending[0].p50, real.pending[0].p95 > 100) == (40, 1.0, True)
    assert [each.priority for each in real.pending] == [None, 5, 0]
    assert {each.of: each.median for each in answer.model} == {"pendingP95": 0.0, "evictions": 0.1, "emptyNodes": 0.0}


def test_a_decision_costs_what_it_changes_until_both_sides_agree_again() -> None:
    answer = of(STORY)
    assert moneys(answer) == {1: Decimal(-1), 3: Decimal(1)}
    assert answer.decisions.rest == "0.00"
    assert [each.ask for each in answer.decisions.listed] == ["slackwater history pod shop/web-1", "slackwater explain node c"]


def test_what_nobody_decided_stands_apart() -> None:
    lost = [BEGAN, came("a", "real"), came("a", "ours"), *minutes(0, 1, 1, 1), went("a", "real", 1), *minutes(1, 2, 0, 1)]
    answer = of(lost)
    assert answer.decisions.nobody == {"real": "-1.00", "ours": "0.00"}
    assert (moneys(answer), answer.decisions.rest) == ({}, "0.00")


def test_only_the_time_asked_for_counts() -> None:
    """The first decision is older, and its node exists on one side only until two hours before the end."""
    answer = of(STORY, 2.5 * HOUR)
    assert answer.counted_seconds == 2.5 * HOUR
    assert (answer.begins, answer.sides[0].money, answer.sides[1].money) == ("2026-12-03T13:30:00Z", "4.00", "2.50")
    assert moneys(answer) == {1: Decimal("-0.5"), 3: Decimal(1)}
    assert [(each.side, each.action, each.decisions) for each in answer.actions] == [("real", "add", 1), ("real", "remove", 1)]


def test_a_service_that_serves_is_compared_with_the_cluster_as_it_was() -> None:
    serving = replace(BEGAN, sides=("real",))
    lines = [serving, came("a", "real"), *minutes(0, 1, 1, None), went("a", "real", 1, 7), *minutes(1, 3, 0, None)]
    answer = of([*lines, came("b", "real", 3, 8), *minutes(3, 4, 1, None)])
    assert (answer.saved, answer.decisions.rest, [each.side for each in answer.sides]) == (None, None, ["real"])
    assert moneys(answer) == {7: Decimal(-3), 8: Decimal(1)}
    assert page_of(view_of(answer)).count("with Slackwater") == 2, "in the title"


def test_both_sides_begin_again_after_a_restart() -> None:
    again = replace(BEGAN, at=START + 6 * HOUR)
    more = [came(node, side, 6) for side in SIDES for node in ("a", "c")]
    answer = of([*STORY, again, *more, *minutes(6, 7, 2, 2)])
    assert moneys(answer) == {1: Decimal(-1), 3: Decimal(1)}
    assert (answer.counted_seconds, answer.sides[0].money) == (5 * HOUR, "9.00")
    assert "has started 1 time meanwhile" in answer.notes[0]
    assert "the 2 h before do not count" in answer.notes[0]
    assert [len(pieces) for pieces in answer.series["nodes"].values()] == [2, 2]


def test_a_service_that_starts_again_may_number_its_decisions_again() -> None:
    again = [replace(BEGAN, at=START + 6 * HOUR), *(came("a", side, 6) for side in SIDES), *minutes(6, 7, 1, 1)]
    second = [decided(1, "real", "remove", 7, why="another one"), went("a", "real", 7, 1), *minutes(7, 8, 0, 1)]
    listed = of([*STORY, *again, *second]).decisions.listed
    assert [(each.side, each.number, each.money, each.why) for each in listed] == [
        ("ours", 1, "-1.00", "it was empty"),
        ("real", 3, "1.00", EVIL),
        ("real", 1, "-1.00", "another one"),
    ]
    ours = [decided(1, "ours", "remove", 7, why="another one"), went("a", "ours", 7, 1), *minutes(7, 8, 1, 0)]
    assert [each.why for each in of([*STORY, *again, *ours]).decisions.listed] == ["it was empty", EVIL, "another one"]


def test_a_new_file_of_the_log_goes_on(tmp_path: Path) -> None:
    """The nodes come again in it, with their decisions. Without the older file it tells of its own time alone."""
    later = STORY.index(next(line for line in STORY if line.at > START + 1.5 * HOUR))
    head = replace(BEGAN, at=STORY[later].at, goes_on=True)
    nodes = [replace(came(node, side), at=head.at) for side, node in (("real", "a"), ("real", "b"), ("ours", "a"))]
    whole = of(STORY)
    file = a_file(tmp_path, [head, *nodes, *STORY[later:]])
    (tmp_path / "shadow.log.1").write_bytes(written(STORY[:later]))
    (tmp_path / "shadow.log.old").write_bytes(b"no log")
    with log_files(str(file)) as log:
        answer = report_answer(log, since_seconds=None)
    assert (answer.sides, moneys(answer), answer.notes) == (whole.sides, moneys(whole), ())
    (tmp_path / "shadow.log.1").unlink()
    with log_files(str(file)) as log:
        assert moneys(report_answer(log, since_seconds=None)) == {3: Decimal(1)}


def test_what_cannot_be_added_up_begins_again() -> None:
    serving = replace(BEGAN, at=START + 5 * HOUR, sides=("real",))
    answer = of([*STORY, serving, came("a", "real", 5), *minutes(5, 6, 1, None)])
    assert (answer.counted_seconds, [each.side for each in answer.sides]) == (HOUR, ["real"])
    assert "Until 2026-12-03T17:00:00Z the log has other sides or another currency" in answer.notes[0]


def test_silence_and_jumps_of_the_clock_do_not_count() -> None:
    silent = of([BEGAN, *minutes(0, 1, 1, 1), *minutes(3, 4, 1, 1)])
    assert (silent.counted_seconds, silent.sides[0].money) == (2 * HOUR, "2.00")
    assert "Nothing was written 1 time for more than 10 min: 2 h do not count." in silent.notes
    back = of([BEGAN, *minutes(0, 1, 1, 1), *minutes(0.5, 1.5, 1, 1)])
    assert (back.counted_seconds, back.sides[0].money) == (2 * HOUR, "2.00")
    assert "The clock went back 1 time; the time after counts as it passed." in back.notes
    assert len(back.series["nodes"]["real"][0]) > 20


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (b"", "got an empty file, want a log"),
        (b'{"line":"sample"', "got no line of a log in it, want a log"),
        (b'{"at":1.0}\n', "got 1 line without the beginning of a log; log: line 1: Object missing required field `line`"),
        (written(minutes(0, 0.1, 1, 1)), "got 14 lines without the beginning of a log, want a log"),
        (b"x" * (LONGEST_LINE + 1) + b'\n{"at":1.0}\n', "got 2 lines without the beginning of a log; log: line 1:"),
    ],
)
def test_a_log_with_nothing_in_it_says_what_was_found(body: bytes, want: str) -> None:
    with pytest.raises(NoReport) as refused:
        report_answer(LogFiles([("log", BytesIO(body))]), since_seconds=None)
    assert want in str(refused.value)


def test_a_log_that_has_only_begun_is_a_report() -> None:
    answer = of([BEGAN])
    assert (answer.counted_seconds, answer.sides[0].money, answer.saved is not None) == (0.0, "0.00", True)
    assert "No sample was written yet." in page_of(view_of(answer))


def test_lines_that_cannot_be_read_are_left_out_and_counted() -> None:
    texts = written(STORY).splitlines(keepends=True)
    texts[50:50] = [b"\0\0\0\n", b'{"line":"sample","at":"noon"}\n', b'{"line":"unheard"}\n']
    body = b"".join(texts) + b'{"line":"samp'
    answer = report_answer(LogFiles([("log", BytesIO(body))]), since_seconds=None)
    assert answer.sides == of(STORY).sides
    assert answer.notes[0].startswith("3 lines could not be read, and are left out. The first: log: line 51: ")


def test_a_decision_that_the_log_has_lost_still_has_its_money() -> None:
    answer = of([line for line in STORY if not (isinstance(line, Decision) and line.number == 3)])
    (lost,) = [each for each in answer.decisions.listed if each.number == 3]
    assert (lost.action, lost.money) == ("", "1.00")
    assert "the log does not have it any more" in page_of(view_of(answer))


def test_the_table_is_this(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "--log", str(a_file(tmp_path)))
    assert out == (Path(__file__).parent / "report.txt").read_text()


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "--log", str(a_file(tmp_path)), "--since", "1d", "-o", "json")
    assert json.loads(out)["saved"] == {
        "nodeHours": 2.0,
        "money": "2.00",
        "perHour": "0.50",
        "perMonth": "360.00",
        "evictions": 0,
    }


class Checked(HTMLParser):
    """Notes what is not closed, ids that are there twice, and references to elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.named: set[str] = set()
        self.elsewhere: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        self.ids += [found["id"]] if "id" in found else []
        self.named |= set(found.get("aria-labelledby", "").split())
        if tag in {"script", "link", "img", "iframe", "object"} or found.keys() & {"src", "href", "onclick"}:
            self.elsewhere.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_alone() -> None:
    text = page_of(view_of(of(STORY)))
    checked = Checked(text)
    assert text.startswith("<!doctype html>")
    assert (checked.open, checked.elsewhere) == ([], [])
    assert len(set(checked.ids)) == len(checked.ids) == 8
    assert checked.named == set(checked.ids)
    assert "url(" not in text
    assert "@import" not in text
    assert EVIL not in text
    assert "&lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt;" in text
    assert "the cluster: 2 at first, 2 at last, between 1 and 2; Slackwater: 2 at first, 1 at last" in text


def test_a_line_keeps_its_extremes_in_bounded_room() -> None:
    series = Series()
    for at in range(20_000):
        series.add(START + at, {4_001: -5.0, 17_007: 99.0}.get(at, float(at % 7)), part=0)
    (piece,) = series.pieces()
    assert MOST_BUCKETS / 2 <= len(piece) <= MOST_BUCKETS
    assert piece == sorted(piece)
    assert [START + 4_001 - each[0] < 1_000 for each in piece if each[2] == -5.0] == [True]
    assert [START + 17_007 - each[0] < 1_000 for each in piece if each[3] == 99.0] == [True]
    assert {round(each[1]) for each in piece} == {3, 4}


def test_a_day_of_a_thousand_nodes_is_quick_and_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bounds are those that were promised, for a machine that is ten times slower."""
    file = a_file(tmp_path, days_of_a_cluster(nodes=1_000, pods=30_000))
    began = time.process_time()
    out, _ = run(capsys, "--log", str(file), "-o", "html")
    assert time.process_time() - began < 10
    assert len(out) < 200_000
    assert out.count("<tr>") > 20


def test_the_room_needed_does_not_grow_with_the_log(tmp_path: Path) -> None:
    peaks = []
    for count in (1_500, 3_000):
        file = a_file(tmp_path, islice(days_of_a_cluster(nodes=40, pods=3_000, days=2), count))
        tracemalloc.start()
        with log_files(str(file)) as log:
            report_answer(log, since_seconds=None)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] < 20_000_000


def test_the_service_is_asked_for_the_time_and_what_it_begins_with(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(written(STORY)) as (url, asked):
        out, _ = run(capsys, "--url", url, "--since", "2h")
    assert [path for path, _ in asked] == ["/report?since=7800s"]
    assert "2026-12-03 14:00 to 2026-12-03 16:00 UTC" in out


def test_a_service_without_a_log_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b'{"detail": "no log is written: because"}', status=404) as (url, _):
        assert "want 200: no log is written: because" in run(capsys, "--url", url, code=3)[1]


@pytest.mark.parametrize(
    ("options", "want"),
    [
        (("--since", "yesterday"), "got 'yesterday', want days or a duration such as 7d, 24h or 90m"),
        (("--since", "0s"), "got '0s', want more than 0"),
        (("--log", "/nowhere/shadow.log"), "--log: /nowhere/shadow.log: No such file or directory"),
        (("--log", "x", "--url", "http://127.0.0.1:1"), "--log: got it with --url"),
        (("-o", "yaml"), "invalid choice"),
    ],
)
def test_wrong_arguments_are_named(options: tuple[str, ...], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, *options, code=2)
    assert (out, want in err) == ("", True)


def test_a_file_that_is_no_log_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "some.log"
    file.write_text("hello\nthere\n")
    assert f"{file}: got no line of a log in it, want a log" in run(capsys, "--log", str(file), code=2)[1]
