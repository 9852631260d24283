"""`slackwater replay`: repeats recorded decisions, and compares the results bit for bit."""

import argparse
import json
import os
import time
from typing import Any, Final

from slackwater.app.progress import shown
from slackwater.cli.commands.output import ANSWERED_NO, CommandFailed, add_output

_DESCRIPTION: Final = """\
Gives the recorded events and questions to a new state machine and compares
every answer: verdicts, scores, binds, permits, migrations, preemptions,
removals. The service records if its configuration says `recording.file`.
The last line is `decisions=N differences=M`. Exit code 0: no difference;
1: some, the first is shown; 2: there is no record.
"""
_EXAMPLES: Final = """\
examples:
  slackwater replay /var/log/slackwater/decisions.rec
  slackwater replay decisions.rec -o json
"""
_MOST_SHOWN: Final = 2_000


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "replay",
        help="repeat recorded decisions: are they the same?",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("file", metavar="FILE", help="what the service has recorded")
    add_output(parser, "table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from slackwater.runtime.record.replay import BadRecord, Replay
    from slackwater.runtime.record_file import RecordError, frames_of

    began = time.perf_counter()
    first, count = None, 0
    try:
        with shown() as progress:
            size = os.path.getsize(args.file) if os.path.isfile(args.file) else None  # `frames_of` reports a missing file
            progress.step(f"repeating {os.path.basename(args.file)}", total=size)
            replay = Replay(frames_of(args.file, progress.at))
            for difference in replay.differences():
                first, count = first or difference, count + 1
    except (RecordError, BadRecord) as error:
        text = str(error)
        raise CommandFailed([text if text.startswith(args.file) else f"{args.file}: {text}"]) from error
    row = {
        "frames": replay.frames,
        "decisions": replay.decisions,
        "differences": count,
        "ended": replay.ended,
        "seconds": round(time.perf_counter() - began, 3),
        "first": None if first is None else _row(first),
    }
    if args.output == "json":
        print(json.dumps(row))
    else:
        _print(row)
    return ANSWERED_NO if count else 0


def _row(difference: Any) -> dict[str, str | int | float]:
    return {
        "frame": difference.number,
        "what": difference.what,
        "at": difference.now,
        "recorded": repr(difference.recorded)[:_MOST_SHOWN],
        "replayed": repr(difference.replayed)[:_MOST_SHOWN],
    }


def _print(row: dict[str, Any]) -> None:
    if row["first"] is not None:
        first = row["first"]
        print(f"first difference: frame {first['frame']}, {first['what']} at {first['at']:.3f} s")
        print(f"  recorded: {first['recorded']}")
        print(f"  replayed: {first['replayed']}")
    why = row["ended"] or "cut off: the process was killed, or still runs"
    print(f"{row['frames']} calls in {row['seconds']:.1f} s; the record ends: {why}")
    print(f"decisions={row['decisions']} differences={row['differences']}")
