"""Live migration: which virtual machine leaves a crowded node, where it goes, and whether now."""
