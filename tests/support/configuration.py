"""The beginning of a configuration file, as an object and as text."""

from typing import Any, Final

HEAD: Final[dict[str, Any]] = {"apiVersion": "config.slackwater.dev/v1alpha1", "kind": "SlackwaterConfiguration"}
HEADER: Final = "".join(f"{key}: {value}\n" for key, value in HEAD.items())
