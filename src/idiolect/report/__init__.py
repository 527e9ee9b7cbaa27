"""Reports: the table in the terminal, the page with pictures in the run folder."""
