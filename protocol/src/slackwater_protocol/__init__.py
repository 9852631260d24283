"""The protocols of Slackwater as a library that works without the service: messages, quantities, durations and names."""

__version__ = "0.1.0"
