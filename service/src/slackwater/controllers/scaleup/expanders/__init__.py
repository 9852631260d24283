"""Which option to take: expanders one after another, one file each. See `chain`."""
