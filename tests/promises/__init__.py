"""What promises about start times cost, on generated traces: `make promises [SEED=n]`; a seed that never changes in CI."""
