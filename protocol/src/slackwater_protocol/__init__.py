"""What Slackwater speaks on its wires, usable without the service."""

__version__ = "0.1.0"
