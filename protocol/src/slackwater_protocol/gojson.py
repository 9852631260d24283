"""Reads JSON as Go's stream decoder does: the first value counts, whatever follows it.

In: the body of a request. Out: plain Python values. Deliberately absent: the meaning of keys, which the message models define.
"""

import json
from collections.abc import Callable
from typing import Any, Final

_BLANKS: Final = " \t\r\n"


class NotJson(ValueError):
    """The text does not begin with a JSON value."""


def first_value(body: bytes) -> Any:
    """Reads the first JSON value of `body`. Bytes that are not UTF-8 become U+FFFD. The last of duplicate keys counts.

    :raises NotJson: there is no value, or it is incomplete.
    """
    text = body.decode("utf-8", "replace").lstrip(_BLANKS)
    try:
        value, _ = _decoder.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error
    return value


def whole_text(text: str) -> str:
    """Replaces each unpaired surrogate in `text` by U+FFFD. JSON can contain unpaired surrogates, UTF-8 cannot."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _refuse(constant: str) -> Any:
    raise NotJson(f"{constant} is no JSON")


_refuse_constant: Final[Callable[[str], Any]] = _refuse
_decoder: Final = json.JSONDecoder(parse_constant=_refuse_constant)
