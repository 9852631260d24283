"""Which virtual machine leaves a crowded node, where it lands, and whether now: pure, on the numbers of one moment."""
