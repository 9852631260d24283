"""`python -m tests.oracle.batches --clusters N --seed S --log FILE`: many clusters of several versions and modes, in batches.

Every batch that ends is a line of the log: version, mode, seed, clusters, commit, and what differed. The same command goes on
where it was stopped: it skips batches that the log has of the same code. Ctrl-C waits for the batches that have begun.

Exit status: 0 without a difference, 1 with one, 130 after Ctrl-C.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from threading import Event
from typing import Any, Final, TextIO, get_args

from slackwater.app.offline.version import VersionRequest
from slackwater.model.kubernetes_rules import SUPPORTED, KubernetesVersion
from tests.oracle.campaign import run
from tests.oracle.generator import Size
from tests.oracle.generator.versions import device_limits
from tests.oracle.ours import side
from tests.oracle.program import build
from tests.oracle.real import Mode

_ROOT: Final = Path(__file__).parents[2]
#: What decides the result of a batch.
_CODE: Final = ("service/src", "protocol/src", "tests/oracle")
#: So many kinds of differences a batch reports with a cluster of each; the number of clusters that differ counts them all.
_KINDS: Final = 99
#: One line of the log.
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Consecutive clusters of one seed, judged by one version in one mode."""

    kubernetes: str
    mode: Mode
    devices: bool
    seed: int
    first: int
    clusters: int

    @property
    def series(self) -> str:
        return f"{self.kubernetes} {self.mode}{' with devices' if self.devices else ''}"

    @property
    def replay(self) -> str:
        """The options of `python -m tests.oracle` that shrink a cluster of the batch, but for its number."""
        mode = "" if self.mode == "placement" else f" --{self.mode}"
        return f"--kubernetes {self.kubernetes} --seed {self.seed}{mode}{' --devices' if self.devices else ''} --clusters 1"


def plan(asked: argparse.Namespace) -> list[Batch]:
    """The batches of all series, those of the same clusters beside one another."""
    firsts = range(asked.first, asked.first + asked.clusters, asked.batch)
    end = asked.first + asked.clusters
    return [
        Batch(
            kubernetes=version, mode=mode, devices=devices, seed=asked.seed, first=first, clusters=min(asked.batch, end - first)
        )
        for first, version, mode, devices in itertools.product(firsts, asked.kubernetes, asked.modes, asked.devices)
    ]


def judge(batch: Batch) -> Entry:
    """Judges a batch, in a worker process; the result is its line of the log."""
    began = time.monotonic()
    version = KubernetesVersion.parse(batch.kubernetes)
    outcome = run(
        build(batch.kubernetes),
        mode=batch.mode,
        seed=batch.seed,
        indices=range(batch.first, batch.first + batch.clusters),
        ours=side(batch.mode, VersionRequest(version=version)),
        size=Size(devices=batch.devices, device_limits=device_limits(version)),
        kinds=_KINDS,
    )
    seen = [{"cluster": failure.index, "what": str(failure.first)} for failure in outcome.failures.values()]
    return {
        **asdict(batch),
        "differing": outcome.differing,
        "differences": seen,
        "seconds": round(time.monotonic() - began, 1),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def code_digest() -> str:
    """Differs whenever a source that both sides are made of does."""
    digest = hashlib.sha256()
    for folder in _CODE:
        for path in sorted((_ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".go", ".mod"}:
                digest.update(path.relative_to(_ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def commit() -> str:
    """The commit of the working tree, "-dirty" after it where files differ; "unknown" without git."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True).stdout.strip()
    return "unknown"


def read_log(path: Path) -> list[Entry]:
    """The lines of the log; a last one that was cut off by a crash is left out."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def left(batches: Iterable[Batch], entries: Iterable[Entry], code: str) -> list[Batch]:
    """The batches that no entry of this code has."""
    done = {_batch_of(entry) for entry in entries if entry["code"] == code}
    return [batch for batch in batches if batch not in done]


def _batch_of(entry: Entry) -> Batch:
    return Batch(**{name: entry[name] for name in Batch.__dataclass_fields__})


def table(entries: Iterable[Entry]) -> str:
    """Clusters and differing clusters of each series, with the commits that judged them."""
    clusters, differing, seconds = Counter[str](), Counter[str](), Counter[str]()
    commits: dict[str, dict[str, None]] = {}
    for entry in entries:
        series = _batch_of(entry).series
        clusters[series] += entry["clusters"]
        differing[series] += entry["differing"]
        seconds[series] += entry["seconds"]
        commits.setdefault(series, {})[entry["commit"]] = None
    rows = [
        f"{series:<34} {clusters[series]:>8,} clusters, {differing[series]:,} differ, "
        f"{clusters[series] / max(seconds[series], 0.1):.0f}/s a process, commit {', '.join(commits[series])}"
        for series in sorted(clusters)
    ]
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    asked = _parser().parse_args(arguments)
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    batches, code, made_by = plan(asked), code_digest(), commit()
    asked.log.parent.mkdir(parents=True, exist_ok=True)
    todo = left(batches, read_log(asked.log), code)
    print(f"{len(batches) - len(todo)} of {len(batches)} batches are in {asked.log} for this code ({code})", file=sys.stderr)
    for version in {batch.kubernetes: None for batch in todo}:
        build(version)
    stopped = _judge_all(todo, asked, {"commit": made_by, "code": code}, stop)
    wanted = set(batches)
    entries = [entry for entry in read_log(asked.log) if entry["code"] == code and _batch_of(entry) in wanted]
    print(table(entries))
    if stopped:
        return 130
    return 1 if any(entry["differing"] for entry in entries) else 0


def _judge_all(todo: Sequence[Batch], asked: argparse.Namespace, origin: Entry, stop: Event) -> bool:
    """Judges the batches until `stop` and writes the log; the result says whether batches are left."""
    waiting, running = list(reversed(todo)), set[Future[Entry]]()
    # Sessions of their own: Ctrl-C reaches this process only.
    workers = ProcessPoolExecutor(asked.processes, mp_context=get_context("spawn"), initializer=os.setsid)
    with asked.log.open("a") as log, workers:
        while running or (waiting and not stop.is_set()):
            while waiting and len(running) < asked.processes and not stop.is_set():
                running.add(workers.submit(judge, waiting.pop()))
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                _note(future.result(), origin, log, f"{len(todo) - len(waiting) - len(running)}/{len(todo)}")
    return bool(waiting)


def _note(entry: Entry, origin: Entry, log: TextIO, progress: str) -> None:
    log.write(json.dumps({**entry, **origin}) + "\n")
    log.flush()
    batch = _batch_of(entry)
    clusters = f"clusters {batch.first}-{batch.first + batch.clusters - 1} of seed {batch.seed}"
    print(
        f"{progress} {batch.series}: {clusters}, {entry['differing']} differ, {entry['seconds']} s", file=sys.stderr, flush=True
    )
    for difference in entry["differences"]:
        print(f"  {difference['what']}\n  python -m tests.oracle {batch.replay} --first {difference['cluster']}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.batches", description=__doc__)
    parser.add_argument("--clusters", type=int, default=10_000, metavar="N", help="of each version and mode")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="number of the first cluster")
    parser.add_argument("--log", type=Path, required=True, metavar="FILE", help="one line of JSON for each batch")
    parser.add_argument("--kubernetes", nargs="+", default=SUPPORTED, metavar="X", help="versions (default: all supported)")
    parser.add_argument("--modes", nargs="+", choices=get_args(Mode), default=get_args(Mode))
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--devices", action="store_const", const=(True,), default=(False,), help="only clusters with devices")
    kinds.add_argument("--all", dest="devices", action="store_const", const=(False, True), help="with devices and without")
    parser.add_argument("--batch", type=int, default=500, metavar="N", help="clusters of a batch")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    return parser


if __name__ == "__main__":
    sys.exit(main())
