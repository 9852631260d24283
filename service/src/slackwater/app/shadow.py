"""The shadow: the service without anything that writes. It watches, plans and explains, and shows what it would do.

In the place of what decides and writes it has:

- an intake that stays a standby for ever: events keep the cluster state current, and their effects are discarded;
- `ObservingAutoscaler`, which withholds what it decides: `DecisionLog` and the history have it as "would ...";
- listeners that answer kube-scheduler and agents with 503;
- a history in a file.

Its client (`ApiReader`) has no method that writes, and it reads node groups through `GroupReader`. So that nothing is written
follows from what it is built of, not from what it checks.
"""

from collections.abc import Iterable, Mapping
from random import Random
from types import MappingProxyType

from slackwater.adapters.api_calls import ApiReader
from slackwater.adapters.files.shadow_files import FileArrivals, FileHistory
from slackwater.adapters.http.certificates import Certificates
from slackwater.adapters.http.refusing import Refusing
from slackwater.app.history import ServiceHistory
from slackwater.app.observing import ObservingService
from slackwater.app.observing_autoscaler import ObservingAutoscaler
from slackwater.app.settings import Settings
from slackwater.app.shared_replica import MakeReplica
from slackwater.controllers.history.new_entries import of_withheld
from slackwater.controllers.leadership.metrics import LeaderStatus
from slackwater.model.authority import SHADOW
from slackwater.model.effects import Effect
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.ports.clock import Times
from slackwater.runtime.autoscaler.loop_record import LoopRecord


class ShadowService(ObservingService):
    """All objects of a shadow, connected with each other. The arguments are those of `Service`, but for the client."""

    shadow = True

    def __init__(
        self,
        settings: Settings,
        client: ApiReader,
        rng: Random,
        times: Times = Times(),
        *,
        certificates: Mapping[str, Certificates] = MappingProxyType({}),
        make_replica: MakeReplica | None = None,
        kubernetes: KubernetesVersion = DEFAULT_VERSION,
    ) -> None:
        super().__init__(settings, client, rng, times, certificates=certificates, kubernetes=kubernetes, standby=True)
        file = settings.history.file
        store = None if file is None else FileHistory(file)
        self.history = ServiceHistory(self.state_machine, store, times=times, leads=lambda: True)
        arrivals = FileArrivals(None if file is None else f"{file}.arrivals")
        self.autoscaler_service = self._autoscaler_service(arrivals, rng) if settings.autoscaler.enabled else None
        self._observe(make_replica)
        after_event = () if self.autoscaler_service is None else (self.autoscaler_service.after_event,)
        self.intake.connect(None, *after_event)
        self.registry = self._registry()
        self.extender_application, self.agents_application = Refusing(SHADOW), Refusing(SHADOW)
        self.disagreement_loop = self._disagreement_loop(self._announce)
        self.ops = self._ops(self.registry)

    def _autoscaler_service(self, arrivals: FileArrivals, rng: Random) -> ObservingAutoscaler[ApiReader]:
        return ObservingAutoscaler(
            self.settings,
            self._reader,
            self.state_machine,
            self._kinds,
            arrivals=arrivals,
            on_broken=self._broken_objects,
            on_record=self._note_loop,
            rng=rng,
            times=self._times,
        )

    def _note_loop(self, record: LoopRecord) -> None:
        """Notes what the loop withheld; the history gets it once, however many loops decide it again."""
        at_ms = round(record.at * 1000)
        for decision in self.decision_log.loop(record):
            pods = [name.removeprefix("pods ") for name in decision.related if name.startswith("pods ")]
            for entry in of_withheld(decision.about, decision.name, decision.text, pods, at_ms):
                self.history.history.add(entry)

    def _announce(self, effects: Iterable[Effect]) -> None:
        """Takes the Events about disagreements with kube-scheduler, which a shadow does not write. `/statusz` counts them."""

    def _leader(self) -> LeaderStatus:
        return LeaderStatus(leads=False, leadership_terms=0)
