"""Names what an error of planning concerns, so that a plan can leave that out and go on with the rest."""

from collections.abc import Iterator
from contextlib import contextmanager

from slackwater.snapshot.equivalence_groups import KindId


class PlanningFailed(Exception):
    """What raised while a part of a plan was made. `about`: an equivalence group of pods (its number), or a node group (its
    name). The cause is the error itself."""

    def __init__(self, about: KindId | str) -> None:
        super().__init__(about)
        self.about = about


@contextmanager
def concerning(about: KindId | str) -> Iterator[None]:
    """Raises `PlanningFailed` in place of any error that the block raises, unless an inner block has named it already."""
    try:
        yield
    except PlanningFailed:
        raise
    except Exception as error:
        raise PlanningFailed(about) from error
