"""Answers `/explain/...` on the running service, from a snapshot replica and from values read of the state machine."""
