"""The outside world: adapters that implement the ports and never import one another."""
