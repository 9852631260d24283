"""Whether each provider does what the port promises. A package, so that its tests' event loop ends with the last of them."""
