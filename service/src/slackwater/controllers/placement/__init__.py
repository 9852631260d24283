"""Placement: which nodes a pod may go to and which of them is best. Answers the extender's filter, prioritize and preempt."""
