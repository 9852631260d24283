"""History: notes what happened to pods and nodes, and persists a bounded part of it."""
