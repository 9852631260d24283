"""The HTTP listeners: the extender (kube-scheduler), agents, and ops (health, metrics, status, explanations, dashboard)."""
