"""Expander `random`: draws one option at random. The same seed draws the same option."""

from hashlib import blake2b

from slackwater.controllers.scaleup.estimate import Option


def draw(option: Option, *, seed: int) -> bytes:
    return blake2b(f"{seed}:{option.names}".encode(), digest_size=8).digest()
