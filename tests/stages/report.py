"""The summary of a run: a line for each stage, every skip with its reason, the slowest tests, and what failed.

What failed comes last: where a log is cut, its end is what is left.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from tests.stages.record import Record
from tests.stages.run import Result

_SLOWEST: Final = 20


def summary(results: Sequence[Result], records: Mapping[str, Sequence[Record]], *, seconds: float, cpu: float) -> str:
    """`records` are those of each stage that ran tests, by its name."""
    parts = (_stages(results, records), _skips(results, records), _slowest(records), _causes(results))
    return "\n".join((*chain(*parts), _total(results, seconds, cpu)))


def _stages(results: Sequence[Result], records: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    yield ""
    for result in results:
        counts = Counter(record.outcome for record in records.get(result.stage.name, ()))
        tests = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped") if counts[outcome])
        yield f"{result.stage.name:16} {result.state:8} {result.seconds:6.0f} s {result.cpu:6.0f} s CPU  {tests}".rstrip()


def _skips(results: Sequence[Result], records: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    stages = [f"{result.stage.name}: {result.why}" for result in results if result.why]
    tests = Counter(_why(record) for each in records.values() for record in each if record.outcome == "skipped")
    if stages or tests:
        yield "\nskipped or not run:"
        yield from (f"  {line}" for line in stages)
        yield from (f"  {count} tests: {why}" if count > 1 else f"  1 test: {why}" for why, count in tests.most_common())


def _why(record: Record) -> str:
    return f"{record.test.partition('::')[0]}: {record.why.removeprefix('Skipped: ')}"


def _slowest(records: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    tests = sorted((record for each in records.values() for record in each), key=lambda record: -record.seconds)
    if tests:
        yield f"\nthe slowest {min(_SLOWEST, len(tests))} tests:"
        yield from (f"  {record.seconds:6.1f} s {record.cpu:6.1f} s CPU  {record.test}" for record in tests[:_SLOWEST])


def _causes(results: Sequence[Result]) -> Iterator[str]:
    for result in results:
        if result.state == "failed":
            yield f"\n{result.stage.name} failed:"
            yield from (f"  {line}" for line in result.causes)


def _total(results: Sequence[Result], seconds: float, cpu: float) -> str:
    failed = [result.stage.name for result in results if result.state in {"failed", "not run"}]
    how = f"failed: {', '.join(failed)}" if failed else "all passed"
    return f"\n{how}, in {seconds // 60:.0f} min {seconds % 60:.0f} s ({cpu:.0f} s of CPU)"
