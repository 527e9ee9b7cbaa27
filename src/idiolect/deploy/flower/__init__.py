"""Devices and their server by way of Flower: the same messages, carried by its SuperLink and SuperNodes.

Needs `idiolect[flower]`. On a node, Flower starts a process for each message and keeps nothing; so that process is a
courier, and data, compiled program and record are with a process that stays.
"""
