"""The commands of `slackwater`, one module each: `add_parser(commands)` and `run(args) -> exit code`."""
