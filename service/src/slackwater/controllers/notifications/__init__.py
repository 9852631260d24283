"""Notifications: the alerts' conditions, judged by the leader over its own metrics, and sent to a webhook."""
