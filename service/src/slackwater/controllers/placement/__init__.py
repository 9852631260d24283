"""Which nodes a pod may go to, and which of them it should: filter, prioritize and preempt of the extender."""
