"""Every figure and table of the papers, run again, with what became of its claims."""
