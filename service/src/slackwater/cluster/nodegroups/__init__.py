"""The node group registry: what is remembered of node groups between loops, namely upcoming nodes, limits, failures, back-off,
cool-downs.

`NodeGroupRegistry.observe` takes what providers and Nodes show. `group_status` says what each group has and what is upcoming,
`chores` what has to be cleaned up. `grant` cuts wishes down to what may be requested now. `grow_ended` and `deleted` take the
results of calls. All of it is a pure state machine, with the time as an argument. Nothing here has to outlive the process:
providers have the targets and instances, the API server has the Nodes, and calls are absolute.
"""
