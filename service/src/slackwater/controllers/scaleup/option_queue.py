"""The option queue: keeps the options of a planning in order, the best first, while one after another is taken into the plan.

An option that is taken affects others: options with pods of the same equivalence groups, options that need more of a limit than
is left, and options whose pods' verdicts depend on where other pods are. If few options are affected, each is estimated again
at once, and the choice is exact. If many are, each is estimated again when its turn comes: a thousand new estimates for each
group that grows would take an hour. Every option that is taken was estimated on the present snapshot (docs/adr/0160).

A bundle of which a bound on its merit is known waits with the bound, and is estimated when its turn comes: the choice stays
exact, and a bundle that cannot be the best is not estimated at all.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final

from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.expanders.chain import Merit
from slackwater.controllers.scaleup.groups import Budget
from slackwater.snapshot.equivalence_groups import KindId

Bundle = tuple[int, ...]
#: Up to so many affected options are estimated again at once.
_FEW: Final = 64


class OptionQueue:
    """A queue of the options of `bundles`; the one with the smallest `merit` is the best. `estimate` makes a bundle's option.
    `bound` returns what the merit of that option is at least; None if that is not known."""

    def __init__(
        self,
        bundles: Sequence[Bundle],
        budget: Budget,
        *,
        estimate: Callable[[Bundle], Option],
        merit: Callable[[Option], Merit],
        bound: Callable[[Bundle], Merit | None] = lambda _: None,
    ) -> None:
        self._budget = budget
        self._estimate, self._merit, self._bound = estimate, merit, bound
        self._options: dict[Bundle, Option] = {}
        #: Grows with every estimate of the bundle, so that entries of earlier estimates are recognized.
        self._version: dict[Bundle, int] = dict.fromkeys(bundles, 0)
        self._queue: list[tuple[Merit, int, Bundle]] = []
        #: For each limit, the options that need it, as a heap of (-amount, version, bundle): the largest need comes first.
        self._needs: dict[int, list[tuple[int, int, Bundle]]] = {}
        self._of_kind: dict[KindId, dict[Bundle, None]] = {}
        self._moving: dict[Bundle, None] = {}
        #: Options that must be estimated again before they are taken.
        self._outdated: dict[Bundle, None] = {}
        for bundle in bundles:
            self._enter(bundle)

    def best(self) -> Option | None:
        """The best option on the present snapshot; None if no option helps any pod. May estimate options again."""
        while True:
            while self._queue:
                _, version, bundle = self._queue[0]
                if version != self._version[bundle]:
                    heappop(self._queue)
                elif bundle in self._outdated:
                    self._renew(bundle)
                else:
                    return self._options[bundle]
            if not self._outdated:
                return None
            for bundle in list(self._outdated):  # options that helped no pod at their last estimate
                self._renew(bundle)

    def best_known(self) -> Option | None:
        """The best option that needs no new estimate; None if there is none. For the end of the planning's time. An option
        whose estimate was cut short is used only if there is no complete one."""
        known = [option for bundle, option in self._options.items() if option.n_pods and bundle not in self._outdated]
        return min([option for option in known if not option.cut] or known, key=self._merit, default=None)

    def took(self, option: Option, *, shown: bool) -> None:
        """Updates the queue after the option was taken into the plan. `shown`: its pods were placed in the snapshot."""
        self._outdated[option.bundle] = None
        for kind in option.kinds:
            self._outdated.update(self._of_kind.get(kind, {}))
        for limit, _ in self._budget.needs(option.groups):
            self._mark_options_over(limit)
        if shown:
            self._outdated.update(self._moving)
        if len(self._outdated) <= _FEW:
            for bundle in list(self._outdated):
                self._enter(bundle)

    def _mark_options_over(self, limit: int) -> None:
        """Marks the options that need more of the limit than is left as affected."""
        needs, left = self._needs.get(limit, []), self._budget.left(limit)
        while needs and -needs[0][0] > left:
            _, version, bundle = heappop(needs)
            if version == self._version[bundle]:
                self._outdated[bundle] = None

    def _enter(self, bundle: Bundle) -> None:
        """Puts the bundle into the queue by the bound on its merit; by its option if no bound is known."""
        bound = self._bound(bundle)
        if bound is None:
            self._renew(bundle)
            return
        self._forget(bundle)
        self._outdated[bundle] = None
        heappush(self._queue, (bound, self._version[bundle], bundle))

    def _renew(self, bundle: Bundle) -> None:
        self._forget(bundle)
        option = self._options[bundle] = self._estimate(bundle)
        version = self._version[bundle]
        if option.moving:
            self._moving[bundle] = None
        if not option.n_pods:
            return
        heappush(self._queue, (self._merit(option), version, bundle))
        for kind in option.kinds:
            self._of_kind.setdefault(kind, {})[bundle] = None
        for limit, amount in self._budget.needs(option.groups):
            heappush(self._needs.setdefault(limit, []), (-amount, version, bundle))

    def _forget(self, bundle: Bundle) -> None:
        self._version[bundle] += 1
        self._outdated.pop(bundle, None)
        self._moving.pop(bundle, None)
        known = self._options.pop(bundle, None)
        for kind in known.kinds if known is not None else ():
            self._of_kind.get(kind, {}).pop(bundle, None)
