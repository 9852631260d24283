"""One folder for each capability: what it decides, its state, its loop."""
