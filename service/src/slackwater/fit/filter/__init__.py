"""The only definition of "fits": one predicate a file, under kube-scheduler's names. Verdicts are codes of
`model.reasons.Reason`."""
