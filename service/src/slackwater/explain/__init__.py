"""Explains why a pod is pending, why a node is not removed, or why a group does not grow, and which change would help.

In: an `ExplainInput` (snapshot, running pods, budgets, groups, policies) and the object in question. Out: an `Explanation`
with reasons (code, amounts, objects) and remedies. Each remedy was tried on a fork of the snapshot, and the problem was gone
there. A minimal set lists several obstacles at one place: all of them have to be removed, and removing fewer does not help.

The functions are pure and do not use the state machine. Deliberately absent: where the explained cluster comes from.
"""
