"""Our side: what `slackwater simulate placement` prints, called in this process."""

from collections.abc import Callable, Iterable

from slackwater.app import offline
from slackwater.app.offline.version import NO_REQUEST, VersionRequest
from tests.oracle.campaign import Ours
from tests.oracle.generator.draw import Obj
from tests.oracle.real import Line, Mode
from tests.support.answers import json_of
from tests.support.scores import score_lines


def side(mode: Mode, request: VersionRequest = NO_REQUEST) -> Ours:
    """The function that answers what the real side answers in `mode`, by the rules of the requested version."""

    def answer(cluster: Obj) -> Iterable[Line]:
        return _answers(mode)(offline.read_cluster(cluster, request=request))

    return answer


def _answers(mode: Mode) -> Callable[[offline.Cluster], Iterable[Line]]:
    match mode:
        case "placement":
            return lambda cluster: map(json_of, offline.placement_lines(cluster))
        case "sequential":
            return lambda cluster: map(json_of, offline.placement_lines(cluster, sequential=True))
        case "scores":
            return score_lines
