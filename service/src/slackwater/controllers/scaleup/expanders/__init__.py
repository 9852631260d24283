"""Expanders: choose among options; one file each, combined in `chain`."""
