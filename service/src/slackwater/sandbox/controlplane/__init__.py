"""Builds the binaries of a real control plane, and runs it on loopback.

`build.build` makes etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK from Go modules, once;
`stack.ControlPlane` runs them. Used by `slackwater demo`, by tests/cluster and by the benchmarks; nothing in the
service itself imports it.
"""
