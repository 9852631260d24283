"""The service dies at any moment, and what it sent before may arrive long after: nobody is promised what is not there.

The API server here is slow and fair to nobody: each request arrives when it likes, after the service that sent it has died, or
never; each answer comes later, or not at all; each watch tells of each object when it likes. What it holds is all that a new
service knows. Agents behave: they use what they were told, and what they ask to have less of they have given back.

Assumed, as in docs/adr/0011: of a binding that was sent, it is settled when a new service lists the pods whether it happened.
"""

from dataclasses import replace
from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, precondition, rule
from msgspec import structs

from slackwater.model.effects import Bind
from slackwater.model.ids import PodKey
from slackwater.model.objects import Pod
from slackwater.model.resources import NOTHING
from slackwater.model.vertical import MigrationRef, Role, VirtualMachineMigration
from tests.support.builders import a_migration, a_pod, amounts
from tests.support.seeds import examples
from tests.support.slowcluster import NODES, Agent, SlowCluster, Vm

#: See test_growth_laws.
pytestmark = pytest.mark.timeout(900)

ROLES: Final[tuple[Role, Role]] = ("source", "target")


class CrashMachine(SlowCluster):
    """With NeonVM's controller, and somebody who kills the service."""

    # --- NeonVM's controller ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.vms)
    @rule(data=st.data())
    def pods_say_what_their_machine_uses(self, data: st.DataObject) -> None:
        vm = self.vms[data.draw(st.sampled_from(sorted(self.vms)))]
        for pod in list(self.api.pods.values()):
            if pod.vertical is not None and pod.vertical.machine == vm.name and pod.vertical.using != vm.use:
                self.api.put_pod(structs.replace(pod, vertical=replace(pod.vertical, using=vm.use)))

    @rule(data=st.data())
    def somebody_makes_a_migration(self, data: st.DataObject) -> None:
        names = [name for name in self.running() if all(m.machine != name for m in self.api.migrations.values())]
        if names:
            vm = self.vms[data.draw(st.sampled_from(names))]
            assert vm.agent is not None
            if vm.agent.pod in self.api.pods:
                self.api.put_migration(a_migration(PodKey("default", f"by-hand-{vm.name}"), vm.name, vm.agent.pod.name))

    def steps(self) -> list[tuple[PodKey, VirtualMachineMigration]]:
        return sorted((key, m) for key, m in self.api.migrations.items() if m.phase in {"", "Pending"})

    @precondition(lambda self: self.steps())
    @rule(data=st.data(), fails=st.sampled_from([False, False, False, True]))
    def a_migration_goes_on(self, data: st.DataObject, fails: bool) -> None:
        """By one step: it begins, its target is placed, it ends."""
        key, migration = self.steps()[data.draw(st.integers(0, len(self.steps()) - 1))]
        source, vm = self.api.pods.get(PodKey("default", migration.source_pod)), self.vms.get(migration.machine)
        if source is None or vm is None:
            self.api.delete_migration(key)
        elif migration.phase == "":
            self.begin_migration(migration, source, vm)
        elif (target := self.api.pods.get(PodKey("default", migration.target_pod))) is None:
            return
        elif target.node is not None:
            self.end_migration(migration, source, target, vm, fails=fails)
        elif target.key not in self.binding and self.state_machine.state.pods.get(target.uid) is not None:
            self.place(target, next(node for node in NODES if node != source.node))

    def begin_migration(self, migration: VirtualMachineMigration, source: Pod, vm: Vm) -> None:
        assert source.vertical is not None
        self.serial += 1
        name = f"{vm.name}-{self.serial}"
        vm.migrating = migration.key
        self.api.put_migration(replace(migration, phase="Pending", target_pod=name))
        marks = [MigrationRef(name=migration.key.name, role=role) for role in ROLES]
        target = replace(source.vertical, using=vm.use, migration=marks[1])
        self.api.put_pod(structs.replace(a_pod(name, cpu="100m", memory="1Gi"), vertical=target))
        self.api.put_pod(structs.replace(source, vertical=replace(source.vertical, migration=marks[0])))

    def end_migration(self, migration: VirtualMachineMigration, source: Pod, target: Pod, vm: Vm, *, fails: bool) -> None:
        assert source.vertical is not None
        assert target.vertical is not None
        if not vm.use.within(target.vertical.using):
            return  # the target was made for what the machine used when it began
        vm.migrating = None
        if fails:
            self.api.put_pod(structs.replace(source, vertical=replace(source.vertical, migration=None)))
            self.api.put_migration(replace(migration, phase="Failed"))
            self.api.delete_pod(target.key)
            return
        self.gives_up(vm)
        self.api.put_pod(structs.replace(target, vertical=replace(target.vertical, migration=None)))
        vm.agent = Agent(target.key)
        self.api.put_migration(replace(migration, phase="Succeeded"))

    def left_behind(self) -> list[PodKey]:
        current = {vm.agent.pod for vm in self.vms.values() if vm.agent is not None}
        return sorted(
            pod.key
            for pod in self.api.pods.values()
            if pod.vertical is not None
            and pod.vertical.migration is not None
            and pod.vertical.migration.role == "source"
            and pod.key not in current
        )

    @precondition(lambda self: self.left_behind())
    @rule()
    def sources_go(self) -> None:
        for key in self.left_behind():
            self.api.delete_pod(key)

    # --- the end of the service -------------------------------------------------------------------------------------------

    @rule(data=st.data(), order=st.permutations([0, 1, 2]))
    def killed_and_started_again(self, data: st.DataObject, order: list[int]) -> None:
        for lane in self.lanes.values():
            if not lane[0].arrived:
                if isinstance(lane[0].effect, Bind):
                    if data.draw(st.booleans()):
                        self.api.arrives(lane[0].effect)
                else:
                    self.late.append(lane[0].effect)
        self.lanes.clear()
        self.binding.clear()
        for vm in self.vms.values():
            self.gives_up(vm)
        self.begin(order)

    # --- laws -------------------------------------------------------------------------------------------------------------

    @invariant()
    def no_node_is_over_total(self) -> None:
        if hasattr(self, "state_machine"):
            for row, _ in self.state_machine.state.nodes:
                node = self.state_machine.state.ledger.numbers(row)
                assert node.reserved.minus(node.buffer).within(node.total), node

    @invariant()
    def no_node_has_to_bear_more_than_it_has(self) -> None:
        sums = dict.fromkeys(NODES, NOTHING)
        for vm in self.vms.values():
            pod = None if vm.agent is None else self.api.pods.get(vm.agent.pod)
            if pod is not None and pod.node is not None:
                sums[pod.node] = sums[pod.node].plus(vm.holds())
        for pod in self.api.pods.values():
            if pod.vertical is None and pod.node is not None:
                sums[pod.node] = sums[pod.node].plus(pod.kind.requests)
        for used in sums.values():
            assert used.within(amounts("10", "40Gi")), sums

    @invariant()
    def nobody_may_use_more_than_is_reserved_for_it(self) -> None:
        for vm in self.vms.values():
            if vm.agent is not None and (pod := self.api.pods.get(vm.agent.pod)) is not None:
                claim = self.state_machine.state.reservations.get(pod.uid)
                assert claim is not None, vm
                assert vm.holds().within(claim.pod_resources.reserved), (vm, claim.pod_resources)


TestCrashes = CrashMachine.TestCase
TestCrashes.settings = settings(max_examples=examples(100), stateful_step_count=50, deadline=None)
