"""What start-time SLOs cost, on generated traces: `make slos [SEED=n]`; a seed that never changes in CI."""
