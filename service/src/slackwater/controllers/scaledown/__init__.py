"""Scale-down: finds nodes that can be removed together, begins removals within the limits, and carries them out."""
