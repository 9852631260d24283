"""Slackwater beside the real Karpenter: what a burst of pods costs an hour, and the time until the last pod is bound."""
