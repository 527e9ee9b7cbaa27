"""What people look at: the table in the terminal, the pictures in the run folder."""
