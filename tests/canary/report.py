"""What changed between two versions: recordings as files, and their comparison as lines of text."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.canary.scenes import Scenes
from tests.canary.shape import Shape, differences, shape_of

GOLDEN: Final = Path(__file__).parent / "golden"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What one version of kube-scheduler asks. `shapes` are those of each verb's body."""

    kubernetes: str
    sequences: dict[str, list[str]]
    shapes: dict[str, Shape]


def recording_of(kubernetes: str, scenes: Scenes) -> Recording:
    shapes = {verb: shape_of(body) for verb, body in sorted(scenes.bodies.items())}
    return Recording(kubernetes=kubernetes, sequences=scenes.sequences, shapes=shapes)


def write(recording: Recording) -> Path:
    """Writes the recording as the golden one of its version."""
    path = GOLDEN / f"{recording.kubernetes}.json"
    path.write_text(json.dumps(asdict(recording), indent=1) + "\n")
    return path


def golden(kubernetes: str) -> Recording:
    """The golden recording of a version; FileNotFoundError without one."""
    return Recording(**json.loads((GOLDEN / f"{kubernetes}.json").read_text()))


def newest_before(kubernetes: str) -> str | None:
    """The newest other version with a golden recording that is not newer than this one; None if there is none."""
    known = [path.stem for path in GOLDEN.glob("*.json") if path.stem != kubernetes and _order(path.stem) <= _order(kubernetes)]
    return max(known, key=_order, default=None)


def _order(version: str) -> list[int]:
    return [int(part) for part in version.partition("-")[0].split(".")]


def changes(before: Recording, now: Recording) -> list[str]:
    """One line for each difference; none if kube-scheduler asks the same in the same order."""
    found = []
    for pod in sorted({*before.sequences, *now.sequences}):
        was, is_now = before.sequences.get(pod, []), now.sequences.get(pod, [])
        if was != is_now:
            found.append(f"calls about a {pod} pod: {' -> '.join(was) or 'none'}; now {' -> '.join(is_now) or 'none'}")
    for verb in sorted({*before.shapes, *now.shapes}):
        found += [f"{verb}: {line}" for line in differences(before.shapes.get(verb, {}), now.shapes.get(verb, {}))]
    return found
