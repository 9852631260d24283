"""Why is this pod pending, this node still here, this group not larger? And what is the smallest change that would help?

What flows through: a `ExplainInput` (snapshot, standing pods, budgets, groups, policies) and what is asked about -> an
`Explanation`: reasons by code with amounts and objects, and remedies. A remedy is in the answer only if it was tried: it was
applied to a fork of the snapshot, and what was asked for then happened there. The minimal sets say more: all that is listed in
one has to go, and less than all of it does not help.

Pure; it does not know the state machine. Deliberately absent: where the explained cluster comes from, and JSON.
"""
