"""The commands of the command line, one module each: `add_parser(commands)` and `run(args) -> exit code`."""
