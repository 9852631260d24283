"""Builds the binaries of a real control plane, and runs it on loopback.

`build.build` makes etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK from Go modules, once;
`stack.ControlPlane` runs them. Used by `make demo CONTROL_PLANE=real`, tests/cluster and
the benchmarks. It is no part of the wheels.
"""
