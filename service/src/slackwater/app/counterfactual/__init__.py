"""The counterfactual cluster: what Slackwater would have done with the real cluster's demand, beside what really happens.

- `demand`: which pods are wanted, whatever node they run on.
- `our_side`, `real_side`: what happens on each, added up by `side_log`; `node_owners` tells whose doing it is.
- `model_check`: the model's own error.
- `counterfactual`: the sides together, from one observation to the next.
- `process`: runs it in a process of its own (`__main__`); `observation` are the messages.
- `lines`: the log of the sides, which `slackwater report` reads; `durations`: how long pods were pending, as counts.
"""
