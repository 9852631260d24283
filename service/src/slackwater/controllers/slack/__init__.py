"""Room for pods to come: how much, cut into which placeholders, and where they stand."""
