"""Leadership: one replica decides and writes, the others watch. What a Lease shows is judged by this replica's clock alone."""
