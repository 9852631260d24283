"""The container image: built twice, looked into, and run as the chart runs it."""
