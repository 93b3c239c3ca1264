"""Two protections of updates as an installed package brings them: one that travels alone, one under masks."""
