"""`python -m tests.fuzz.target`: the whole service on a small sandbox cluster, in a process of its own, until its stdin ends.

Prints one line of JSON: the URL of each listener. Nothing in the cluster happens by itself and nothing expires, so that
whatever changes was changed by a request.
"""

import json
import sys
from dataclasses import replace
from typing import Final

import anyio
import anyio.to_thread

from slackwater.cli.commands.logs import set_up_logs
from slackwater.sandbox.embedded.agents import a_machine
from slackwater.sandbox.embedded.kinds import MACHINES
from tests.support.wholeservice import LISTENERS, Whole, a_whole_service

#: Longer than all tests take.
_HOUR: Final = 3600.0
SETTINGS = {
    "extender": {"holdTimeout": "1h", "bindBackoff": "1h"},
    "featureGates": {"AsyncPreemption": False},
    "migration": {"enabled": False},
}


def fill(whole: Whole) -> None:
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    for name in ("node-1", "node-2", "node-3"):
        status = {"capacity": room, "allocatable": room}  # ready when its kubelet says so: the last that happens by itself
        whole.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})
    for number in range(3):
        resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
        spec = {"schedulerName": "slackwater", "containers": [{"name": "app", "image": "i", "resources": resources}]}
        metadata = {"name": f"pod-{number}", "namespace": "default"}
        whole.create("/api/v1/namespaces/default/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    whole.create(f"{MACHINES.prefix}/namespaces/default/{MACHINES.plural}", a_machine("vm", low=1, high=16, use=2))


async def main() -> None:
    set_up_logs("json")
    async with a_whole_service(SETTINGS) as whole:
        fill(whole)
        state_machine = whole.running.state_machine
        await whole.until(
            lambda: [node.ready for _, node in state_machine.state.nodes] == [True] * 3 and len(state_machine.state.pods) >= 4
        )
        # kube-scheduler never binds what filter answered: the room that is held for it would end after a minute.
        state_machine.adopt_policy(replace(state_machine.policy, in_flight_seconds=_HOUR, volumes_seconds=_HOUR))
        print(json.dumps({name: whole.url(name) for name in LISTENERS}), flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    anyio.run(main)
