"""Questions that concern several capabilities, one module each."""
