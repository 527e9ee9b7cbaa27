"""Scoring of models: which clients, on which data, after how much adaptation."""
