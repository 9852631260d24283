"""The real plug-ins as a process: clusters in, verdicts out.

One process judges thousands of clusters. `Real.ask` sends a cluster, `Real.answer` reads the lines of the oldest one
asked, so that both sides can work at the same time; at most one cluster should wait unread.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Literal

Mode = Literal["placement", "sequential", "scores"]
Line = dict[str, Any]
#: So much of what the program writes before it ends is shown: the first lines of a crash say where.
_SHOWN: Final = 2000


class OracleFailed(Exception):
    """The program said that it cannot judge a cluster, or ended."""


class Real:
    """A running oracle; made by `running`."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self._process = process
        self._errors = errors

    def ask(self, cluster: Mapping[str, Any]) -> None:
        """Sends a cluster (a v1 List). OracleFailed if the program has ended, which it does at start with gates that no
        kube-scheduler starts with."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(cluster, separators=(",", ":")) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            with suppress(BrokenPipeError):
                self._process.stdin.close()  # now, since leaving `running` would raise the same again
            raise self._ended() from None

    def answer(self) -> list[Line]:
        """The lines of the oldest cluster not answered yet, one for each waiting pod in the file's order."""
        assert self._process.stdout is not None
        lines: list[Line] = []
        while (text := self._process.stdout.readline()).endswith("\n"):  # a line without is cut off by a crash
            if text != "\n":
                lines.append(json.loads(text))
                continue
            # Not before the answer has been read to its end: the next one begins there.
            for line in lines:
                if "failed" in line and "pod" not in line:
                    raise OracleFailed(f"the real plug-ins cannot judge this cluster: {line['failed']}")
            return lines
        raise self._ended()

    def judge(self, cluster: Mapping[str, Any]) -> list[Line]:
        """`ask` and `answer`."""
        self.ask(cluster)
        return self.answer()

    def _ended(self) -> OracleFailed:
        status = self._process.wait()
        self._errors.seek(0)
        return OracleFailed(f"kube-scheduler's plug-ins ended with {status}: {self._errors.read(_SHOWN).strip()}")


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
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            [program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8"
        )
        assert process.stdin is not None
        try:
            with process:
                yield Real(process, errors)
                process.stdin.close()
        finally:
            process.kill()
