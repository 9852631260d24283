"""The `recording` section of the configuration file: the record that `slackwater replay` reads."""

from pydantic import Field

from slackwater.app.settings.section import Section
from slackwater.app.settings.values import Few, FilePath, SomeMemory
from slackwater_protocol.units import Bytes


class Recording(Section):
    """A record for `slackwater replay`."""

    file: FilePath | None = Field(default=None, examples=["/var/log/slackwater/decisions.rec"])
    """Path of the file that every decision's inputs are written to, compressed; it is made again at each start. Unset by
    default: nothing is recorded."""
    max_bytes: SomeMemory = Field(default=Bytes(256 << 20), examples=["256Mi"])
    """The most that the file may hold; there the record ends. 256Mi by default: some hours of a busy cluster."""
    keep: Few = Field(default=1, examples=[1, 0])
    """How many records of earlier starts stay beside the file, as FILE.1 (the latest), FILE.2 and so on; older ones are
    dropped. The file and they hold `maxBytes` each. 1 by default: what led to a restart can be repeated after it."""
