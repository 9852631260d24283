"""Values: ids, objects, kinds, columns, events and effects.

Nothing here waits, reads a clock or touches a network; every other floor may import it.
"""
