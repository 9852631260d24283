"""What a shadow says that Slackwater would do, beside what Slackwater then does."""
