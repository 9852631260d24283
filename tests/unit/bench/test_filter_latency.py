"""Which figures of the filter bench fail a run: where nothing else runs the time of a call, in a quick run its CPU."""

import subprocess
import sys
import time

import pytest

from tests.bench.filter_latency import Question, _ratios, _Series
from tests.bench.procstat import cpu_seconds_finely

QUESTION = Question(name="filter", requests=(), check=lambda _: None)


def absurd(*, quick: bool, call: float, cpu: float) -> list[str]:
    """What a run reports in which the service takes so many times the echo's time and CPU."""
    echo = _Series(server="echo", question=QUESTION, answer_bytes=1, blocks=[[1e-5]], cpu=[1e-5])
    service = _Series(server="slackwater", question=QUESTION, answer_bytes=1, blocks=[[call * 1e-5]], cpu=[cpu * 1e-5])
    ratios = _ratios([echo, service], quick=quick)
    return [ratio.name for ratio in ratios if ratio.absurd]


@pytest.mark.parametrize(
    ("quick", "call", "cpu", "want"),
    [
        (True, 200.0, 20.0, []),
        (True, 10.0, 61.0, ["filter: slackwater / echo, CPU"]),
        (True, 10.0, 0.4, ["filter: slackwater / echo, CPU"]),
        (False, 10.0, 10.0, []),
        (False, 61.0, 10.0, ["filter: slackwater / echo"]),
        (False, 0.4, 10.0, ["filter: slackwater / echo"]),
    ],
)
def test_a_busy_machine_fails_no_quick_run_and_work_for_each_node_fails_both(
    quick: bool, call: float, cpu: float, want: list[str]
) -> None:
    assert absurd(quick=quick, call=call, cpu=cpu) == want


def test_the_cpu_of_another_process_is_known_finely() -> None:
    script = "import time\nwhile time.process_time() < 0.2: pass\ninput()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as burns:
        deadline = time.monotonic() + 60
        while cpu_seconds_finely(burns.pid) < 0.2 and time.monotonic() < deadline:
            time.sleep(0.01)
        spent = cpu_seconds_finely(burns.pid)
        burns.communicate(b"\n")
    assert spent >= 0.2
    assert spent * 100 % 1 != 0, "more than ticks of a hundredth"
    with pytest.raises(OSError, match="Invalid argument"):
        cpu_seconds_finely(burns.pid)
