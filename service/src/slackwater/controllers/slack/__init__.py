"""Slack: room for pods to come. How much is kept, as which placeholders, and on which nodes."""
