"""The five documents' figures and tables as experiments, with their claims decided by the numbers."""
