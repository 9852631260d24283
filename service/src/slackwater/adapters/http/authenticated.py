"""The answer to filter for a pod whose gate is shut, as short as can be: no node passes, and the first one says why.

kube-scheduler takes nodes that an answer does not name for unresolvable, so that its own preemption stays out of all of them.
A shut gate is asked about again and again; what that costs must not grow with the cluster.
"""

from typing import Final

import msgspec

from slackwater.adapters.http.wire import encode
from slackwater.model.reasons import MEANINGS, Reason

_TEXT: Final = encode(MEANINGS[Reason.GATED].text)
#: A node's name is a DNS name.
_LONGEST_NAME: Final = 253


def gated_answer(names: msgspec.Raw) -> bytes | None:
    """`names` is the question's JSON list of names; None where it is not as kube-scheduler writes it, or empty."""
    begin = bytes(memoryview(names)[: 3 + _LONGEST_NAME])
    first, quote, _ = begin[2:].partition(b'"')
    if begin[:2] != b'["' or not quote or b"\\" in first or not first.isascii():
        return None
    entry = b'"%b":%b' % (first, _TEXT)
    return b'{"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{%b},"Error":""}' % entry
