"""`python -m tests.bench.asking PORT NODES PAUSE`: asks filter over all names again and again until its input ends.

A process of its own, so that it shares no lock with what it measures. Writes a line once the first call is answered, and at the
end the seconds of each call as JSON.
"""

import json
import select
import sys

import orjson

from tests.bench.keepalive import KeepAlive, a_request

_PODS = 32
FIRST_ANSWERED = "first"


def requests(nodes: int) -> list[bytes]:
    """Small pods in turn, each over all names from another one on."""
    names = [f"n-{number}" for number in range(nodes)]
    made = []
    for number in range(_PODS):
        start = number * nodes // _PODS
        container = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}
        pod = {
            "metadata": {"name": f"asked-{number}", "namespace": "default", "uid": f"asked-{number}", "resourceVersion": "1"},
            "spec": {"schedulerName": "slackwater", "containers": [container]},
            "status": {"phase": "Pending"},
        }
        body = {"Pod": pod, "Nodes": None, "NodeNames": names[start:] + names[:start]}
        made.append(a_request("/scheduler/filter", orjson.dumps(body)))
    return made


def main(port: int, nodes: int, pause: float) -> None:
    """See the module."""
    asked = requests(nodes)
    seconds: list[float] = []
    with KeepAlive(port) as connection:
        seconds.append(connection.ask(asked[0])[0])
        print(FIRST_ANSWERED, flush=True)
        while not select.select([sys.stdin], [], [], pause)[0]:
            seconds.append(connection.ask(asked[len(seconds) % len(asked)])[0])
    print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
