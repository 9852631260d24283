"""Everything that a state machine is told and asked, with what it answered: written down, and repeated.

Events in and questions in give the same effects and answers out: the state machine is a state machine whose time, seed and
order are arguments. `calls` is how one call is written, `recorded` a state machine that tells each, `replayed` a state machine
that gets them again. Deliberately absent: files.
"""
