"""Record and replay: all calls of a state machine with their answers, recorded as frames and replayed to compare the answers.

The state machine is deterministic: time, seed and order are its only other inputs. So the same calls give the same effects and
answers. `calls` encodes one call, `recording` has the state machine that records each call, `replay` runs a record again.
Deliberately absent: files (`runtime.record_file`).
"""
