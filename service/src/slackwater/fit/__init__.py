"""What would happen: predicates and placement on columns. Pure; nothing is promised here."""
