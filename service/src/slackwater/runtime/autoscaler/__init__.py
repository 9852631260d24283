"""The autoscaler's loop: observes node groups and changes, requests plans, acts on them, and reports."""
