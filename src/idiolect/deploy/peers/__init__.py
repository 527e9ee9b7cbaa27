"""Agents without a server, each on its own machine."""
