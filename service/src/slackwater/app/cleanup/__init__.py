"""Removes from the cluster everything that Slackwater has written. For the command `cleanup`, after the service has stopped."""
