"""Whatever comes in: `make fuzz`. CASES=n sets how many examples each test tries; a few in CI."""
