"""Learning on real machines: keys, access and messages; a server, its devices, and peers.

Needs `idiolect[zenoh]`. What runs on a device and what runs at a server know nothing of each other but the messages.
"""
