"""Differences between runs, paired over seeds and clients, and how sure they are."""
