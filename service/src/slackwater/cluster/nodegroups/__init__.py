"""What is remembered of node groups between loops: growth on its way, its limits, failures, back-off, cool-downs.

What flows through: `NodeGroupRegistry.observe` takes what providers and Nodes show; `node groups' status` says what each group
has and what is coming; `chores` what has to be cleaned up; `grant` cuts a wish down to what may be asked for now; the ends of
calls come back by `grow_ended`, `deleted` and `removal_ended`. All of it is a pure state machine, `now` is an argument. Nothing
here has to outlive the process: targets and instances are the provider's, nodes are Nodes, and calls are absolute.
"""
