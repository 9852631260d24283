"""Everything that a world is told and asked, with what it answered: written down, and repeated.

Events in and questions in give the same effects and answers out: the world is a state machine whose time, seed and order are
arguments. `calls` is how one call is written, `recorded` a world that tells each, `replayed` a world that is told them again.
Deliberately absent: files.
"""
