"""`slackwater worth` beside what the service then does with the same cluster."""
