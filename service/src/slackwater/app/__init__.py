"""The top floor: settings, wiring, the command line, and what they start."""
