"""Scale-down: which nodes can be removed together, which removals begin now, and how a removal that has begun goes on."""
