"""What users install: wheels in environments of their own."""
