"""Slack, room for pods to come: plans how much is kept, by which placeholders, and on which nodes."""
