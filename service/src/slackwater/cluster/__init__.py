"""The cluster state: nodes, pods, reservations, holds, budgets and node groups' status."""
