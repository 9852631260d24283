"""The outside world: adapters that implement the ports of `run` and never import one another."""
