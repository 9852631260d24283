"""Turns the configuration of other autoscalers into ours: `slackwater config from-cluster-autoscaler | from-karpenter`."""
