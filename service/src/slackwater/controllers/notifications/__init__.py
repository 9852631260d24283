"""Notifications: the alerts' conditions, judged by the leader over its own metrics, and told to a webhook."""
