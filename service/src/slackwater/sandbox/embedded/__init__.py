"""An embedded cluster: what an API server, a kube-scheduler, kubelets and a few controllers are to the service, in one process.

No sockets, no threads; time is what it is given. Deliberately absent: most of Kubernetes (`kinds` has the types that there
are), and the service itself, which meets it behind the same port as a real API server (docs/adr/0090).
"""
