"""The command line `slackwater`: parses arguments, runs the commands and prints their results."""
