"""Explanations: why a pod is pending, a node still there, or a group not larger, and the smallest change that would help.

In flow an `ExplainInput` (snapshot, running pods, budgets, groups, policies) and the object in question; out flows an
`Explanation`: reasons by code with amounts and objects, and remedies. A remedy is given only if it was tried: it was applied to
a fork of the snapshot, and the object's problem was gone there. A minimal set says more: everything listed in it has to go, and
less does not help.

Pure; it does not know the state machine. Deliberately absent: where the explained cluster comes from, and JSON.
"""
