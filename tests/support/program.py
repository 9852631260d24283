"""The command as a user calls it."""

import sys
from pathlib import Path
from typing import Final

#: The entry point that `pip install` makes.
PROGRAM: Final = Path(sys.executable).with_name("slackwater")
