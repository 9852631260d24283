"""An answer as the JSON values that people get."""

from typing import Any

import msgspec

from slackwater.model.json_answer import JsonAnswer


def json_of(answer: JsonAnswer) -> Any:
    return msgspec.json.decode(msgspec.json.encode(answer))
