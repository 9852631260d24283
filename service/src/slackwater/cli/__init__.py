"""The command line: parses arguments, runs the commands and prints their results."""
