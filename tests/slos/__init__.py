"""What start-time SLOs cost, on generated traces: `make laws TESTS=tests/slos [SEED=n]`; a seed that never changes in CI."""
