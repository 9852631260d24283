"""Runs the stages of `make check` and `make test` side by side, and says at the end what each took and what was skipped."""
