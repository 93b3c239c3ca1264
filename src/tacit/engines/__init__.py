"""Where parties live. `memory` runs them all in this process; the same objects can be driven over a network."""
