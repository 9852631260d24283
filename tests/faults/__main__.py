"""`python -m tests.faults`: seeds one after another, for as long as wanted; a failing one is shrunk, and can be replayed.

The last line is `steps=N seeds=M violations=K`. Exit 0 where no law was violated, 1 where one was, 2 for what cannot be done.
With `--break` the loss of a mechanism has to be noticed: exit 0 where its law was violated, 1 where no run showed that.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import redirect_stdout
from io import StringIO
from random import SystemRandom

from slackwater_protocol.durations import DurationError, parse_duration, seconds
from tests.faults.mechanisms import MECHANISMS, Mechanism, broken
from tests.faults.play import Result, Script, play, silence_logs
from tests.faults.provider_faults import FAULTS
from tests.faults.shrink import shrunk

#: Of one mechanism that is broken on purpose: after so many seeds nobody has noticed.
_MOST_SEEDS_BROKEN = 1000
_ALL = "all"
#: A line on stderr, so that long campaigns show how far they are.
_TELL_EVERY_SECONDS = 30.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--duration", type=_seconds, help='play fresh seeds for so long, such as "180s"')
    parser.add_argument("--seeds", type=int, help="play so many seeds (default without --duration: 50)")
    parser.add_argument("--seed", type=int, help="the first seed; alone: only this one (default: by chance)")
    parser.add_argument("--storm", type=float, default=30.0, help="seconds of each run before it gets calm (default: 30)")
    parser.add_argument("--without", default="", help=f"faults to leave out, of {', '.join(FAULTS)}")
    parser.add_argument(
        "--break",
        dest="mechanism",
        default="",
        help="a mechanism to break on purpose; all: one after another; list: names them",
    )
    parser.add_argument("--trace", action="store_true", help="print everything that happened")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one for each core)")
    return parser


def main() -> int:
    args = _parser().parse_args()
    silence_logs()
    if args.mechanism == "list":
        for mechanism in MECHANISMS.values():
            print(f"{mechanism.name:24} {mechanism.law:4} {mechanism.what}")
        return 0
    if args.mechanism and args.mechanism not in {*MECHANISMS, _ALL}:
        print(f"--break: got {args.mechanism}, want {_ALL} or one of {', '.join(MECHANISMS)}", file=sys.stderr)
        return 2
    without = frozenset(filter(None, args.without.split(",")))
    if unknown := without - set(FAULTS):
        print(f"--without: got {', '.join(sorted(unknown))}, want some of {', '.join(FAULTS)}", file=sys.stderr)
        return 2
    if not args.mechanism:
        return _Campaign(args, without).run()
    names = list(MECHANISMS) if args.mechanism == _ALL else [args.mechanism]
    if len(names) == 1:
        return _noticed(args, without, MECHANISMS[names[0]])
    with ProcessPoolExecutor(args.jobs, initializer=silence_logs) as pool:
        campaigns = [pool.submit(_noticed_in_text, args, without, name) for name in names]
        found = []
        for campaign in campaigns:
            status, text = campaign.result()
            print(text, end="", flush=True)
            found.append(status)
    return max(found)


def _noticed_in_text(args: argparse.Namespace, without: frozenset[str], name: str) -> tuple[int, str]:
    """`_noticed`, and what it printed: in a process of its own, so that mechanisms are broken side by side."""
    with redirect_stdout(StringIO()) as printed:
        status = _noticed(args, without, MECHANISMS[name])
    return status, printed.getvalue()


def _noticed(args: argparse.Namespace, without: frozenset[str], mechanism: Mechanism) -> int:
    """Plays until the law of the mechanism is violated; the exit status."""
    first = mechanism.seed if args.seed is None else args.seed
    broken_campaign = argparse.Namespace(**{**vars(args), "mechanism": mechanism.name, "seed": first})
    campaign = _Campaign(broken_campaign, without)
    campaign.run()
    noticed = campaign.laws[mechanism.law] > 0
    others = ", ".join(sorted(law for law in campaign.laws if law != mechanism.law))
    if noticed:
        late = f", after {campaign.seeds} seeds: let its search begin at the last" if campaign.seeds > 1 else ""
        found = f"noticed by {mechanism.law}{late}"
    else:
        found = f"NOT noticed by {mechanism.law}{f', only by {others}' if others else ''}"
    print(f"{mechanism.name}: {found}", flush=True)
    return 0 if noticed else 1


class _Campaign:
    def __init__(self, args: argparse.Namespace, without: frozenset[str]) -> None:
        self._args = args
        self._without = without
        self._steps = self._violations = 0
        #: How many were played.
        self.seeds = 0
        #: How many runs violated which law.
        self.laws: Counter[str] = Counter()
        self._ends_at = None if args.duration is None else time.monotonic() + args.duration
        self._first = args.seed if args.seed is not None else SystemRandom().randrange(1, 10**9)
        self._tell_at = time.monotonic() + _TELL_EVERY_SECONDS

    def run(self) -> int:
        print(f"from seed {self._first}", flush=True)
        if self._args.trace or self._one_only():
            self._take(self._script(self._first), _played(self._script(self._first), self._args.mechanism, self._args.trace))
        elif self._args.mechanism:
            # One seed after another: nearly always the first shows what is missing, and no other needs to be played.
            for script in self._scripts():
                self._take(script, _played(script, self._args.mechanism, False))
        else:
            self._play_many()
        print(self._so_far())
        return 1 if self._violations else 0

    def _one_only(self) -> bool:
        """Is one seed asked for, and nothing else?"""
        asked = self._args
        return not asked.mechanism and asked.seed is not None and asked.seeds is None and self._ends_at is None

    def _so_far(self) -> str:
        return f"steps={self._steps} seeds={self.seeds} violations={self._violations}"

    def _script(self, seed: int) -> Script:
        return Script(seed=seed, seconds=self._args.storm, without=self._without)

    def _scripts(self) -> Iterator[Script]:
        count = self._args.seeds
        if count is None and self._ends_at is None:
            count = _MOST_SEEDS_BROKEN if self._args.mechanism else 50
        seed = self._first
        while (count is None or seed < self._first + count) and not self._over():
            yield self._script(seed)
            seed += 1

    def _over(self) -> bool:
        late = self._ends_at is not None and time.monotonic() >= self._ends_at
        mechanism = MECHANISMS.get(self._args.mechanism)
        return late or (mechanism is not None and self.laws[mechanism.law] > 0)

    def _play_many(self) -> None:
        scripts = self._scripts()
        with ProcessPoolExecutor(self._args.jobs, initializer=silence_logs) as pool:
            running: dict[Future[Result], Script] = {}
            while True:
                while len(running) < 2 * self._args.jobs and (script := next(scripts, None)) is not None:
                    running[pool.submit(_played, script, self._args.mechanism, False)] = script
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    self._take(running.pop(future), future.result())

    def _take(self, script: Script, result: Result) -> None:
        self._steps += result.steps
        self.seeds += 1
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + _TELL_EVERY_SECONDS
            print(f"... {self._so_far()}", file=sys.stderr, flush=True)
        if self._args.trace:
            print("\n".join(result.trace))
        if result.broken is None:
            return
        self._violations += 1
        self.laws[result.broken.law] += 1
        print(f"seed {script.seed}: after {result.steps} steps, at {result.at:.3f} s: {result.broken}", flush=True)
        if self._violations == 1 and not self._args.mechanism:
            self._scale_down(script, result)

    def _scale_down(self, script: Script, result: Result) -> None:
        """The first failure is made smaller; how to play both again."""
        assert result.broken is not None
        law = result.broken.law
        small = shrunk(script, law, lambda smaller: _played(smaller, "", False))
        print(f"replay: {_command(script)}")
        print(f"shrunk: {_command(small)} --trace", flush=True)


def _played(script: Script, mechanism: str, keep_trace: bool) -> Result:
    with broken(mechanism):
        return play(script, keep_trace=keep_trace)


def _command(script: Script) -> str:
    words = [f"python -m tests.faults --seed {script.seed} --storm {script.seconds:g}"]
    if script.without:
        words.append(f"--without {','.join(sorted(script.without))}")
    return " ".join(words)


def _seconds(text: str) -> float:
    try:
        return seconds(parse_duration(text))
    except DurationError as error:
        raise argparse.ArgumentTypeError(f'got {text}, want a duration such as "180s"') from error


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of texts are iterated in the order of their hashes: the same in each process.
        os.execve(sys.executable, [sys.executable, "-m", "tests.faults", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
