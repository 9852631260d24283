"""Simulates a cluster in one process: an API server, a scheduler that behaves as kube-scheduler, kubelets, some controllers.

It uses no sockets and no threads, and callers provide the clock. Deliberately absent: most of Kubernetes (`kinds` lists the
resource types that exist), and the service itself, which uses the simulation by the same Protocol as a real API server
(docs/adr/0090).
"""
