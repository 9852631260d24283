"""The counterfactual cluster: what Slackwater would have done with the real cluster's demand, beside what really happened.

- `lines`: the log of both sides, which `slackwater report` reads.
- `durations`: how long pods were pending, as counts that can be added up.
"""
