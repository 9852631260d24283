"""The Protocols between code that decides and code that waits (for network or time), and the clocks."""
