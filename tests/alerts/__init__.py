"""deploy/monitoring, checked by the real promtool."""
