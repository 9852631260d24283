"""The top-level folders of the service, as an alternative of a regular expression."""

from pathlib import Path
from typing import Final

_SOURCES: Final = Path(__file__).parents[2] / "service" / "src" / "slackwater"
LAYERS: Final = "|".join(sorted(folder.name for folder in _SOURCES.iterdir() if (folder / "__init__.py").exists()))
