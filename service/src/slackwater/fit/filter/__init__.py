"""One definition of "fits", one predicate a file. Verdicts are codes of `model.reasons.Reason`."""
