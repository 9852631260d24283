"""HTTP: the extender's four verbs, and the ops listener (health, metrics, dumpstate, dashboard)."""
