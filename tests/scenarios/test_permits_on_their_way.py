"""Permits whose writing has not ended, or ended without a word: nobody is told more than either text would mean."""

import anyio
import anyio.lowlevel
import pytest
from msgspec import structs

from slackwater.model.effects import Bind, WritePermit
from slackwater.model.events import PermitNotWritten, PermitWritten, TimePassed
from slackwater.model.permits import PermitAsk, PermitDecision, PersistedPermit, read_written
from slackwater.ports.protocols import Outcome
from tests.support.bodies import bind_args
from tests.support.builders import a_node, a_pod, a_vertical
from tests.support.growing import LARGE, MEDIUM, SMALL, UNIT, Growing, one_node
from tests.support.service import a_service

__all__ = ["one_node"]  # a fixture


def test_growth_waits_for_the_lower_permit_that_is_on_its_way(cluster: Growing) -> None:
    """Else the write ends after the answer, and a crash then leaves more in use than is on record."""
    pod = cluster.places("vm", on="n")
    cluster.ask(pod, MEDIUM)
    cluster.ask(pod, SMALL, last=MEDIUM)
    cluster.passes(1.5)
    assert [read_written(effect.text) for effect in cluster.writes()] == [PersistedPermit(permit=SMALL, permit_limit=SMALL)]

    decided = cluster.decide(pod, MEDIUM, last=SMALL)
    assert (cluster.reported(decided).permit, cluster.reported(decided).permit_limit_pending) == (SMALL, True)
    cluster.write()
    assert cluster.reported(decided).permit == MEDIUM
    cluster.restarts()
    assert MEDIUM.within(cluster.reserved(pod))


def test_a_lower_permit_whose_answer_was_lost_may_stand_there(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    cluster.ask(pod, MEDIUM)
    cluster.ask(pod, SMALL, last=MEDIUM)
    cluster.passes(1.5)
    (effect,) = cluster.writes()
    cluster.sent.clear()
    cluster.annotate(effect)
    cluster.take(PermitNotWritten(effect.pod, "the connection broke"))

    decided = cluster.decide(pod, MEDIUM, last=SMALL)
    assert cluster.reported(decided).permit == SMALL
    cluster.restarts()
    assert cluster.reserved(pod) == SMALL


@pytest.mark.anyio
async def test_a_bind_waits_for_the_permit_of_whose_room_it_takes() -> None:
    """Else a crash between the two would leave more promised on the node than it has."""
    on_record = PersistedPermit(permit=LARGE, permit_limit=LARGE).text()
    machine = structs.replace(a_pod("vm", on="n"), vertical=a_vertical(permit=on_record))
    other = a_pod("other", cpu="2")
    async with a_service() as service:
        service.has(a_node("n", cpu="4", memory="40Gi"), machine, other)
        ask = PermitAsk(key=machine.key, version=7, asked=SMALL, last_permit=LARGE, compute_unit=UNIT, load=None, slots=False)
        assert isinstance(service.state_machine.ask_permit(ask, None, service.clock()), PermitDecision)
        now_on_record = PermitWritten(
            machine.uid, PersistedPermit(permit=SMALL, permit_limit=SMALL).text(), machine.resource_version + 1
        )
        service.writer.script.append(Outcome("done", 200, event=now_on_record))
        answers = []

        async def bind() -> None:
            answers.append(await service.ask("bind", bind_args(other, "n")))

        async with anyio.create_task_group() as group:
            group.start_soon(bind)
            with anyio.fail_after(60):
                while service.reserved("n")[0] < 3000:
                    await anyio.lowlevel.checkpoint()
            assert service.writer.asked == []
            service.take(TimePassed())
        assert answers == [{"Error": ""}]
        assert [type(effect) for effect in service.writer.asked] == [WritePermit, Bind]


@pytest.mark.parametrize("end", ["completes", "is-deleted"])
def test_a_write_that_is_answered_after_its_pod_ended_is_forgotten(cluster: Growing, end: str) -> None:
    """Nothing forgets a text but the end of its pod's claim, and that has come already."""
    pod = cluster.has_pod("plain", on="n", vertical=a_vertical(machine=None))
    cluster.decide(pod, LARGE, last=SMALL)
    (write,) = [effect for effect in cluster.sent if isinstance(effect, WritePermit)]
    assert write.on == "pod"
    text, version = cluster.annotate(write)
    if end == "completes":
        cluster.store(structs.replace(cluster.pods[pod.key], ended=True))
    else:
        cluster.deletes(pod)
    cluster.take(PermitWritten(pod.uid, text, version))
    assert cluster.state_machine.state.annotations.written() == []
