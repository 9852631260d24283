"""The single writer: events in, effects out. No clock, no network, no log: time is an argument of every call."""
