"""Who leads: one replica decides and writes, the others watch. What a Lease shows is judged here, by our own clock alone."""
