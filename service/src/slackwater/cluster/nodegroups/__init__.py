"""The node group registry: what is remembered of node groups between loops, namely upcoming nodes, limits, failures, back-off,
cool-downs.

`NodeGroupRegistry.observe` takes what providers and Nodes show. `group_status` has each group's nodes, started and upcoming;
`due_cleanups` lists what must be cleaned up. `grant` reduces the wanted scale-ups to what may be requested now.
`grow_ended` and `deleted` take the results of calls. The registry is a pure state machine with the time as an argument.
Nothing here has to outlive the process: providers have the targets and instances, the API server has the Nodes, and calls name
absolute sizes.
"""
