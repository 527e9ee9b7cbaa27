"""Engines for protocols with a server: in virtual time, in real time, and step by step."""
