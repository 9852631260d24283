"""kube-scheduler's own plug-ins as the judge of our predicates: generated clusters, both sides, no difference allowed."""
