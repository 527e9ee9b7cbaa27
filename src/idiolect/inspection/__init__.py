"""A problem before training: who holds what, how heterogeneous that is, and what a run will take."""
