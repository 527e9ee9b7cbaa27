"""An experiment as a value: what it may say, how recipes are read, how its parts are built, run and recorded."""
