"""`python -m tests.faults`: seeds one after another, for as long as wanted."""

import argparse
import os
import sys
import time

from tests.faults.play import Script, play, silence_logs


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.faults")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--trace", action="store_true")
    args = parser.parse_args()
    silence_logs()
    steps = bad = 0
    began = time.perf_counter()
    first = args.seed if args.seed is not None else 1
    seeds = range(first, first + (1 if args.seed is not None else args.seeds))
    for seed in seeds:
        result = play(Script(seed=seed, seconds=args.seconds), keep_trace=args.trace)
        steps += result.steps
        if args.trace:
            print("\n".join(result.trace))
        if result.broken is not None:
            bad += 1
            print(f"seed {seed}: step {result.steps}, {result.at:.3f} s: {result.broken}")
    print(time.perf_counter() - began, file=sys.stderr)
    print(f"steps={steps} seeds={len(seeds)} violations={bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, "-m", "tests.faults", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
