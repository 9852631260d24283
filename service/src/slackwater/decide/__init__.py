"""Pure decisions on the picture; siblings never import one another."""
