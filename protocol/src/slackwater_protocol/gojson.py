"""JSON as Go's decoder reads it from a stream: the first value, whatever follows it.

Flows through: a request's body -> plain Python values. Deliberately absent: the meaning of keys, which the models know.
"""

import json
from collections.abc import Callable
from typing import Any, Final

_BLANKS: Final = " \t\r\n"


class NotJson(ValueError):
    """The text does not begin with a JSON value."""


def first_value(body: bytes) -> Any:
    """The first JSON value of `body`. Bytes that are no UTF-8 become U+FFFD, of equal keys the last one counts.

    :raises NotJson: there is none, or it does not end.
    """
    text = body.decode("utf-8", "replace").lstrip(_BLANKS)
    try:
        value, _ = _decoder.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error
    return value


def whole_text(text: str) -> str:
    """`text` with U+FFFD for halves of surrogate pairs, which JSON can write and UTF-8 cannot."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _refuse(constant: str) -> Any:
    raise NotJson(f"{constant} is no JSON")


_refuse_constant: Final[Callable[[str], Any]] = _refuse
_decoder: Final = json.JSONDecoder(parse_constant=_refuse_constant)
