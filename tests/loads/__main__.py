"""Plays load shapes and prints a line for each: `python -m tests.loads [--seed N] [--hours N] [--only TEXT] [--verbose]`.

The exit status is 1 if a law is broken: see `tests/laws/autoscaler/test_load_laws.py`.
"""

import argparse
import sys

from tests.loads.play import play
from tests.loads.shapes import HOURS, all_shapes, further_shapes


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.loads")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hours", type=int, default=HOURS)
    parser.add_argument("--only", default="", help="shapes whose name has this text")
    parser.add_argument("--verbose", action="store_true", help="print each violation")
    options = parser.parse_args(arguments)
    print(f"{'shape':26} {'nodes':>5} {'bought':>6} {'removed':>7} {'evicted':>7} {'hasty':>5} {'again':>5} {'helpless':>8} "
          f"{'homeless':>8} {'given up':>8} {'loops':>5} {'CPU s':>6}")  # fmt: skip
    broken, seconds = 0, 0.0
    for shape in (*all_shapes(options.seed, hours=options.hours), *further_shapes(options.seed, hours=options.hours)):
        if options.only not in shape.name:
            continue
        found = play(shape, hours=options.hours)
        violations = found.violations(shape)
        broken += len(violations)
        seconds += found.cpu_seconds
        print(
            f"{shape.name:26} {found.nodes:5} {found.bought:6} {found.removed:7} {found.evicted:7} {len(found.hasty):5} "
            f"{found.again:5} {len(found.helpless):8} {len(found.homeless):8} {found.given_up:8} {found.loops:5} "
            f"{found.cpu_seconds:6.1f}{'  BROKEN' if violations else ''}",
            flush=True,
        )
        if options.verbose:
            print("\n".join(f"    {text}" for text in violations), flush=True)
    print(f"{broken} violations in {seconds / 60:.1f} minutes of CPU, seed {options.seed}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
