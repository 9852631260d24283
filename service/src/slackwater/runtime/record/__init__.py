"""Record and replay: all calls of a state machine with their answers, recorded as frames and replayed to compare the answers.

The state machine is deterministic: beside its seed and its calls, in order and with their times, nothing affects it. So the
same calls give the same effects and answers. `calls` encodes one call, `recording` has the state machine that records each
call, `replay` runs a record again. Deliberately absent: files (`runtime.record_file`).
"""
