"""A device that learns with a server: its durable record, its turns, and its own data."""
