"""Packs the whole demand at once onto new nodes of all variants, at the lowest price (the expander "price")."""
