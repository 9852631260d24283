"""Values: ids, objects, equivalence groups, columns, events and effects.

Nothing here waits, reads a clock or touches a network; every other layer may import it.
"""
