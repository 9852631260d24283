"""The real plug-ins as a process: clusters in, verdicts out.

One process judges thousands of clusters. `Real.ask` sends a cluster, `Real.answer` reads the lines of the oldest one
asked, so that both sides can work at the same time; at most one cluster should wait unread.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

Mode = Literal["placement", "sequential", "scores"]
Line = dict[str, Any]


class OracleFailed(Exception):
    """The program said that it cannot judge a cluster, or ended."""


class Real:
    """A running oracle; made by `running`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, cluster: Mapping[str, Any]) -> None:
        """Sends a cluster (a v1 List)."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(cluster, separators=(",", ":")) + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[Line]:
        """The lines of the oldest cluster not answered yet, one for each waiting pod in the file's order."""
        assert self._process.stdout is not None
        lines: list[Line] = []
        while text := self._process.stdout.readline():
            if text != "\n":
                lines.append(json.loads(text))
                continue
            # Not before the answer has been read to its end: the next one begins there.
            for line in lines:
                if "failed" in line and "pod" not in line:
                    raise OracleFailed(f"the real plug-ins cannot judge this cluster: {line['failed']}")
            return lines
        raise OracleFailed(f"the oracle ended with {self._process.wait()}, want it to answer")

    def judge(self, cluster: Mapping[str, Any]) -> list[Line]:
        """`ask` and `answer`."""
        self.ask(cluster)
        return self.answer()


@contextmanager
def running(
    program: Path,
    mode: Mode | Literal["replay"] = "placement",
    *,
    validate: bool = False,
    config: Path | None = None,
    gates: Mapping[str, bool] | None = None,
) -> Iterator[Real]:
    """The program in one of its modes; with `validate` an answer starts with what an API server would refuse. `config` is a
    KubeSchedulerConfiguration with a profile of its own. `gates` are feature gates, of API server and scheduler alike."""
    options = [f"--{mode}"] if mode != "placement" else []
    options += ["--validate"] if validate else []
    options += [f"--config={config}"] if config is not None else []
    options += [f"--feature-gates={','.join(f'{name}={on}' for name, on in gates.items())}"] if gates else []
    process = subprocess.Popen([program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    assert process.stdin is not None
    try:
        with process:
            yield Real(process)
            process.stdin.close()
    finally:
        process.kill()
