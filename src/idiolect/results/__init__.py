"""Results of a run: typed records, its folder, checkpoints and summary."""
