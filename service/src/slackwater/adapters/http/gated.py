"""Writes the answer to filter for a pod that our scheduling gate holds: no node passes, and only the first carries the reason.

kube-scheduler treats nodes that an answer does not name as unresolvable, so its own preemption considers none of them. It asks
for a gated pod repeatedly, so the cost of the answer must not grow with the number of nodes.
"""

from typing import Final

import msgspec

from slackwater.adapters.http.wire import encode
from slackwater.model.reasons import MEANINGS, Reason

_TEXT: Final = encode(MEANINGS[Reason.GATED].text)
#: Limit of a node name's length, which is that of a DNS name.
_LONGEST_NAME: Final = 253


def gated_answer(names: msgspec.Raw) -> bytes | None:
    """Returns the answer's body; None if the list is empty or not in the form that kube-scheduler writes.

    `names` is the JSON list of node names in the request.
    """
    begin = bytes(memoryview(names)[: 3 + _LONGEST_NAME])
    first, quote, _ = begin[2:].partition(b'"')
    if begin[:2] != b'["' or not quote or b"\\" in first or not first.isascii():
        return None
    entry = b'"%b":%b' % (first, _TEXT)
    return b'{"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{%b},"Error":""}' % entry
