"""What a run leaves: typed records, its folder, checkpoints and summary."""
