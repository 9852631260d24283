"""One folder a capability: what it decides, what it remembers, its loop."""
