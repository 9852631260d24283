"""Stages run side by side in lanes, and a failure stops those alone that need what failed."""

import json
import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.stages.plan import CHECK, PLANS, TEST, Plan, Stage
from tests.stages.record import RECORDS, Record
from tests.stages.report import summary
from tests.stages.run import Result, Run

ROOT = Path(__file__).parents[3]
A, B, C, D = (Stage(name=name) for name in "abcd")


class Ran:
    """Runs a plan with a scripted command for each stage; `order` says when each began and ended."""

    def __init__(self, plan: Plan, folder: Path, scripts: dict[str, str]) -> None:
        self.reported: list[str] = []
        self._scripts = scripts
        self._events = folder / "events"
        self.run = Run(plan, folder=folder / "out", command=self._command, tell=self.reported.append)
        self.results = {result.stage.name: result for result in self.run.run()}

    @property
    def order(self) -> list[str]:
        return self._events.read_text().splitlines() if self._events.exists() else []

    @property
    def states(self) -> dict[str, str]:
        return {name: result.state for name, result in self.results.items()}

    def _command(self, stage: Stage) -> Sequence[str]:
        note = f"open({str(self._events)!r}, 'a').write({{!r}})"
        lines = [
            note.format(f"{stage.name} begins\n"),
            self._scripts.get(stage.name, "pass"),
            note.format(f"{stage.name} ends\n"),
        ]
        return (sys.executable, "-c", "\n".join(lines))


def test_the_stages_of_a_lane_follow_one_another(tmp_path: Path) -> None:
    ran = Ran(Plan(computing=((A, B, C),)), tmp_path, {})
    assert ran.order == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]
    assert set(ran.states.values()) == {"passed"}


def test_lanes_run_side_by_side(tmp_path: Path) -> None:
    """Each of the two waits until the other has begun."""
    both = f"all(f'{{name}} begins' in open({str(tmp_path / 'events')!r}).read() for name in 'ab')"
    script = f"import time\nwhile not {both}: time.sleep(0.01)"
    ran = Ran(Plan(waiting=(A,), computing=((B,),)), tmp_path, {"a": script, "b": script})
    assert ran.states == {"a": "passed", "b": "passed"}


def test_lanes_that_compute_yield_to_the_one_that_waits(tmp_path: Path) -> None:
    niceness = "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"
    ran = Ran(Plan(waiting=(A,), computing=((B,),)), tmp_path, dict.fromkeys("ab", niceness))
    waiting, computing = (int(ran.run.log(stage).read_text()) for stage in (A, B))
    assert computing == min(waiting + 10, 19)
    alone = Ran(Plan(computing=((B,),)), tmp_path / "alone", {"b": niceness})
    assert int(alone.run.log(B).read_text()) == waiting


def test_a_stage_waits_for_what_it_needs_in_another_lane(tmp_path: Path) -> None:
    needy = Stage(name="b", needs=("a",))
    ran = Ran(Plan(waiting=(A,), computing=((needy,),)), tmp_path, {"a": "import time; time.sleep(0.2)"})
    assert ran.order == ["a begins", "a ends", "b begins", "b ends"]


def test_a_failure_stops_only_what_needs_it_and_shows_the_end_of_what_was_printed(tmp_path: Path) -> None:
    needy = Stage(name="b", needs=("a",))
    ran = Ran(Plan(waiting=(A, needy, C), computing=((D,),)), tmp_path, {"a": "print('words of a'); raise SystemExit(3)"})
    assert ran.states == {"a": "failed", "b": "not run", "c": "passed", "d": "passed"}
    assert ran.results["b"].why == "it needs a"
    assert any("words of a" in text for text in ran.reported)


def test_what_failed_comes_last_in_the_summary_and_behind_the_log_of_the_stage(tmp_path: Path) -> None:
    """A stage without tests: the last lines that it printed."""
    script = "for number in range(300): print(f'line {number}\\n')\nprint('FAILED agents: no answer'); raise SystemExit(1)"
    ran = Ran(Plan(computing=((A,), (B,))), tmp_path, {"a": script})
    want = [*(f"line {number}" for number in range(281, 300)), "FAILED agents: no answer"]
    assert list(ran.results["a"].causes) == want
    [text] = [text for text in ran.reported if "the end of" in text]
    assert text.splitlines()[-21:] == ["--- a failed:", *want]
    *_, empty, total = summary(list(ran.results.values()), {}, seconds=1, cpu=1).splitlines()
    assert (empty, total) == ("", "failed: a, in 0 min 1 s (1 s of CPU)")
    assert summary(list(ran.results.values()), {}, seconds=1, cpu=1).splitlines()[-23:-2] == [
        "a failed:",
        *(f"  {w}" for w in want),
    ]


def test_a_stage_with_tests_names_those_that_failed_and_their_messages(tmp_path: Path) -> None:
    records = [Record(test="t.py::test_a"), *(Record(test=f"t.py::test_{n}", outcome="failed", why="no") for n in range(52))]
    lines = "\n".join(json.dumps(asdict(record)) for record in records)
    script = f"import os, pathlib\nfolder = pathlib.Path(os.environ[{RECORDS!r}])\nfolder.mkdir()\n"
    script += f"(folder / '1.jsonl').write_text({lines!r})\nraise SystemExit(1)"
    ran = Ran(Plan(computing=((A,),)), tmp_path, {"a": script})
    want = [*(f"t.py::test_{n}: no" for n in range(50)), f"and 2 more tests: see {ran.run.log(A)}"]
    assert list(ran.results["a"].causes) == want


def test_a_stage_that_cannot_run_here_is_skipped_with_its_reason(tmp_path: Path) -> None:
    lacking = Stage(name="a", missing=lambda _: "no browser")
    ran = Ran(Plan(computing=((lacking, B),)), tmp_path, {})
    assert ran.states == {"a": "skipped", "b": "passed"}
    assert "a skipped: no browser" in ran.reported
    assert "  a: no browser" in summary(list(ran.results.values()), {}, seconds=1, cpu=1).splitlines()


def test_the_cpu_of_a_stage_is_that_of_all_its_processes(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}], check=True)"
    ran = Ran(Plan(computing=((A, B),)), tmp_path, {"a": child, "b": "import time\ntime.sleep(0.5)"})
    assert ran.results["a"].cpu >= 0.2
    assert ran.results["b"].cpu < 0.5 <= ran.results["b"].seconds


def test_each_stage_gets_the_file_to_record_its_tests_in(tmp_path: Path) -> None:
    ran = Ran(Plan(computing=((A,),)), tmp_path, {"a": f"import os; print(os.environ[{RECORDS!r}])"})
    assert ran.run.log(A).read_text().strip() == str(ran.run.records(A).absolute())


def test_a_command_that_cannot_be_started_keeps_no_stage_waiting(tmp_path: Path) -> None:
    plan = Plan(waiting=(A,), computing=((Stage(name="b", needs=("a",)),),))

    def broken(_stage: Stage) -> Sequence[str]:
        raise OSError("no make")

    run = Run(plan, folder=tmp_path, command=broken, tell=lambda _: None)
    thread_errors: list[BaseException] = []

    def play() -> None:
        try:
            run.run()
        except OSError as error:
            thread_errors.append(error)

    thread = threading.Thread(target=play)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert [str(error) for error in thread_errors] == ["no make"]


@pytest.mark.parametrize("name", sorted(PLANS))
def test_every_stage_is_a_target_of_the_makefile_and_needs_one_that_is_there(name: str) -> None:
    text = (ROOT / "Makefile").read_text()
    stages = PLANS[name].stages
    names = [stage.name for stage in stages]
    targets = [(stage.make or (stage.name,))[0] for stage in stages]
    assert [target for target in targets if f"\n{target}:" not in text] == []
    variables = {each.partition("=")[0] for stage in stages for each in stage.make[1:]}
    assert [variable for variable in variables if not re.search(rf"\(if \$\({variable}\)|ifdef {variable}\b", text)] == []
    assert len(names) == len(set(names))
    assert [need for stage in stages for need in stage.needs if need not in names] == []


def test_make_test_runs_all_that_make_check_runs() -> None:
    """There `unit` has the slow tests, too."""
    assert {stage.name for stage in CHECK.stages} <= {stage.name for stage in TEST.stages}
    assert [stage.make for stage in TEST.stages if stage.name == "unit"] == [("unit", "SLOW=1")]


def test_a_stage_never_needs_one_that_comes_after_it_in_its_lane() -> None:
    """Else a run would wait for ever."""
    for plan in PLANS.values():
        for lane in (plan.waiting, *plan.computing):
            for place, stage in enumerate(lane):
                assert not set(stage.needs) & {later.name for later in lane[place:]}
        assert not {need for stage in plan.waiting for need in stage.needs} - {stage.name for stage in plan.waiting}


def test_the_summary_fails_where_a_stage_was_not_run() -> None:
    results = [Result(stage=A, state="failed", seconds=1.0), Result(stage=B, state="not run", why="it needs a")]
    assert summary(results, {}, seconds=61, cpu=5).splitlines()[-1] == "failed: a, b, in 1 min 1 s (5 s of CPU)"
    assert json.dumps(summary([], {}, seconds=0, cpu=0))
