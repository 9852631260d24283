"""Expander `random`: one of them, drawn by lot. The same seed draws the same."""

from collections.abc import Sequence
from hashlib import blake2b

from slackwater.decide.scaleup.estimate import Option


def draw(options: Sequence[Option], *, seed: int) -> list[Option]:
    return [min(options, key=lambda option: blake2b(f"{seed}:{option.names}".encode(), digest_size=8).digest())]
