"""kube-scheduler's configuration file: generates one for this service (`generate`), and checks one for known mistakes, "traps"
(`check`)."""
