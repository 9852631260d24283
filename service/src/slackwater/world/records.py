"""What a process that starts anew may find on record: of one pod, and of a node's pods together.

The annotation that is known is one possibility. Others are what a write of ours that has not ended, or ended without a word,
would leave there; and, until our first write has ended, anything that a former process may have left on its way. Of all these
the worst counts: the least where an agent is to be told something, the most where room is to be given to somebody else.
"""

from collections.abc import Iterator

from slackwater.ledger.account import Account
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.objects import Pod
from slackwater.model.resources import NOTHING, Amounts
from slackwater.model.written import Written
from slackwater.world.books import Books
from slackwater.world.policy import Policy
from slackwater.world.standings import Standing


class Records:
    """Read by `Ceilings`, which alone writes. `mark` has to be called whenever a pod's account or its record has changed."""

    def __init__(self, books: Books, *, policy: Policy) -> None:
        self._ledger = books.ledger
        self._nodes = books.nodes
        self._pods = books.pods
        self._claims = books.claims
        self._standings = books.standings
        self.policy = policy
        #: Pods that a restart may count for more than they count for now. Few, but for the first minutes after a start.
        self._loose: dict[NodeName, dict[PodUid, None]] = {}

    def restored(self, pod: Pod) -> Account:
        """What a restart would count, by the text that is known. The pod is vertical."""
        return self._standings.after_restart(pod, scheduler_name=self.policy.scheduler_name)

    def safe(self, uid: PodUid) -> Amounts:
        """The most that may be answered at once: what any restart would reserve.

        What the pod of a machine shows as used is no record: it lags behind what its agent does.
        """
        pod = self._pods.known(uid)
        if pod is None or pod.vertical is None:
            return NOTHING
        standing = self._standings.get(uid)
        behind = standing is not None and standing.behind
        safe = self._known(pod, behind=behind)
        for written in () if standing is None else _on_the_way(standing):
            safe = safe.at_most(written.permit if behind else written.ceiling)
        return safe if pod.vertical.resizing is None else safe.at_least(pod.vertical.using)

    def _known(self, pod: Pod, *, behind: bool) -> Amounts:
        own, restored = self._standings.own(pod), self.restored(pod)
        if behind:
            return restored.reserved.minus(restored.buffer)
        return restored.reserved if own is None else own.ceiling

    def excess(self, uid: PodUid) -> Amounts:
        """By how much a restart may count more for the pod than it counts for now, beyond its Buffer."""
        claim, pod, standing = self._claims.get(uid), self._pods.known(uid), self._standings.get(uid)
        if claim is None or pod is None or pod.vertical is None or standing is None:
            return NOTHING
        restored = self.restored(pod)
        most = restored.reserved.minus(restored.buffer)
        for written in _on_the_way(standing):
            most = most.at_least(written.permit)
        if not standing.fenced and self._standings.may_write(pod):
            most = most.at_least(pod.vertical.max)
        return most.minus(claim.account.reserved).not_below_zero()

    def mark(self, uid: PodUid) -> None:
        """The pod's account or record has changed."""
        claim = self._claims.get(uid)
        if claim is None:
            return
        if self.excess(uid) != NOTHING:
            self._loose.setdefault(claim.node, {})[uid] = None
        else:
            self.forget(uid, claim.node)

    def forget(self, uid: PodUid, node: NodeName) -> None:
        loose = self._loose.get(node)
        if loose is not None:
            loose.pop(uid, None)
            if not loose:
                del self._loose[node]

    def in_the_way(self, node: NodeName, *, beside: PodUid | None = None) -> list[PodUid]:
        """The pods whose records would take the node over Total, were we to restart now. `beside`: all others than this one."""
        loose, row = self._loose.get(node), self._nodes.row_of.get(node)
        if loose is None or row is None:
            return []
        numbers = self._ledger.numbers(row)
        excesses = {uid: self.excess(uid) for uid in loose if uid != beside}
        found = numbers.reserved
        for excess in excesses.values():
            found = found.plus(excess)
        short = [r for r in range(2) if found[r] > numbers.total[r]]
        return [uid for uid, excess in excesses.items() if any(excess[r] for r in short)]


def _on_the_way(standing: Standing) -> Iterator[Written]:
    """Texts that may stand there by now."""
    if standing.writing is not None:
        yield standing.writing
    yield from standing.doubted
