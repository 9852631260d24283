"""The answer to filter for a gated pod: no node passes, and only the first node has a reason.

kube-scheduler treats nodes that an answer does not name as unresolvable, so its own preemption leaves all of them alone. It
asks about a gated pod again and again, so the cost of the answer must not grow with the cluster.
"""

from typing import Final

import msgspec

from slackwater.adapters.http.wire import encode
from slackwater.model.reasons import MEANINGS, Reason

_TEXT: Final = encode(MEANINGS[Reason.GATED].text)
#: A node's name is a DNS name.
_LONGEST_NAME: Final = 253


def gated_answer(names: msgspec.Raw) -> bytes | None:
    """The answer, or None if `names`, the request's JSON list of names, is empty or not as kube-scheduler writes it."""
    begin = bytes(memoryview(names)[: 3 + _LONGEST_NAME])
    first, quote, _ = begin[2:].partition(b'"')
    if begin[:2] != b'["' or not quote or b"\\" in first or not first.isascii():
        return None
    entry = b'"%b":%b' % (first, _TEXT)
    return b'{"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{%b},"Error":""}' % entry
