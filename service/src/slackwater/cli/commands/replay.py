"""`slackwater replay`: repeats a record of decisions, and says whether each comes out the same, bit for bit."""

import argparse
import json
import os
import time
from typing import Any, Final

from slackwater.app.progress import shown
from slackwater.cli.commands.failure import ANSWERED_NO, CommandFailed

_DESCRIPTION: Final = """\
Tells a new world everything that the record's was told and asked, and compares every answer: verdicts, scores, binds,
permits, migrations, preemptions, removals. A record is made where the configuration says `recording.file`.
The last line is `decisions=N differences=M`. Exit code 0: no difference; 1: some, the first is shown; 2: no record.
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
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="what the service has recorded")
    parser.add_argument("-o", dest="output", choices=("table", "json"), default="table", help="default: table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from slackwater.runtime.record.replayed import BadRecord, Replay
    from slackwater.runtime.recording import RecordError, frames_of

    began = time.perf_counter()
    first, count = None, 0
    try:
        with shown() as progress:
            progress.step(f"repeating {os.path.basename(args.file)}", total=_size(args.file))
            replay = Replay(frames_of(args.file, progress.at))
            for difference in replay.differences():
                first, count = first or difference, count + 1
    except (RecordError, BadRecord) as error:
        text = str(error)
        raise CommandFailed([text if text.startswith(args.file) else f"{args.file}: {text}"]) from error
    told = {
        "frames": replay.frames,
        "decisions": replay.decisions,
        "differences": count,
        "ended": replay.ended,
        "seconds": round(time.perf_counter() - began, 3),
        "first": None if first is None else _told(first),
    }
    if args.output == "json":
        print(json.dumps(told))
    else:
        _print(told)
    return ANSWERED_NO if count else 0


def _size(path: str) -> int | None:
    """None where there is no such file; reading it says so."""
    return os.path.getsize(path) if os.path.isfile(path) else None


def _told(difference: Any) -> dict[str, str | int | float]:
    return {
        "frame": difference.number,
        "what": difference.what,
        "at": difference.now,
        "recorded": repr(difference.recorded)[:_MOST_SHOWN],
        "replayed": repr(difference.replayed)[:_MOST_SHOWN],
    }


def _print(told: dict[str, Any]) -> None:
    if told["first"] is not None:
        first = told["first"]
        print(f"first difference: frame {first['frame']}, {first['what']} at {first['at']:.3f} s")
        print(f"  recorded: {first['recorded']}")
        print(f"  replayed: {first['replayed']}")
    why = told["ended"] or "cut off: the process was killed, or still runs"
    print(f"{told['frames']} calls in {told['seconds']:.1f} s; the record ends: {why}")
    print(f"decisions={told['decisions']} differences={told['differences']}")
