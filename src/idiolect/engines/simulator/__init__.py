"""Protocols with a server, folded over a timeline: in virtual time, in real time, and step by step."""
