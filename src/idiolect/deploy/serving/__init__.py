"""A server that real devices ask: its write-ahead log, its desk, and who is refused."""
