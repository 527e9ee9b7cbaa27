"""The commands of `idiolect`, a module each."""
