"""The `recording` section of the configuration file: the record that `slackwater replay` reads."""

from pydantic import Field

from slackwater.app.settings.section import Section
from slackwater.app.settings.values import Few, FilePath, SomeMemory
from slackwater_protocol.units import Bytes


class Recording(Section):
    """The record of decisions for `slackwater replay`."""

    file: FilePath | None = Field(default=None, examples=["/var/log/slackwater/decisions.rec"])
    """Path of the file to which the inputs of every decision are written, compressed; each start begins a new file. Unset by
    default: nothing is recorded."""
    max_bytes: SomeMemory = Field(default=Bytes(256 << 20), examples=["256Mi"])
    """Quantity of bytes that the file may have; the record ends there. 256Mi by default: some hours of a busy cluster."""
    keep: Few = Field(default=1, examples=[1, 0])
    """Records of earlier starts that are kept, as FILE.1 (the latest), FILE.2 and so on; older ones are deleted. Each may have
    `maxBytes`. 1 by default: the decisions before a restart can then be replayed after it."""
