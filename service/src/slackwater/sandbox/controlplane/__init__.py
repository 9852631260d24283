"""A real control plane on loopback: builds its binaries, and runs it.

`build.build` makes etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK from Go modules, once;
`stack.ControlPlane` runs them. Used by `slackwater demo`, by tests/cluster and by the benchmarks; nothing in the
service itself imports it.
"""
