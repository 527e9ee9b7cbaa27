"""The commands of `idiolect`. A module imports what its command needs when it is called: the others start fast."""
