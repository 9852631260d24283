"""What the dashboard shows: health, nodes, pending pods, and series of figures, kept in memory and bounded."""
