"""`python -m tests.bench.looking PORT N`: N dashboards that read what they are told, until its input ends.

A process of its own, so that it shares no lock with what it measures. Writes a line once each of them has had a board and a
change, and at the end as JSON how many boards and changes came.
"""

import json
import select
import socket
import sys
from collections import Counter
from typing import Final

from tests.bench.options import PATIENCE_SECONDS

_REQUEST: Final = b"GET /dashboard/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
_EVENTS: Final = ("board", "change")
ALL_REPORTED: Final = "all"
_CHUNK: Final = 1 << 20


def main(port: int, count: int) -> None:
    """See the module."""
    reported: Counter[str] = Counter()
    looking = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) for _ in range(count)]
    for each in looking:
        each.sendall(_REQUEST)
    waiting = {(each, event) for each in looking for event in _EVENTS}
    while True:
        ready, _, _ = select.select([sys.stdin, *looking], [], [], PATIENCE_SECONDS)
        if sys.stdin in ready:
            break
        for each in [each for each in looking if each in ready]:
            part = each.recv(_CHUNK)
            if not part:
                sys.exit("a stream ended before it was left")
            for event in _EVENTS:
                if found := part.count(b"event: %s\n" % event.encode()):
                    reported[event] += found
                    waiting.discard((each, event))
                    if not waiting:
                        print(ALL_REPORTED, flush=True)
                        waiting.add((each, ""))  # said once
    for each in looking:
        each.close()
    print(json.dumps(reported), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
