"""Opens a run, decides what is up to date, executes stages."""
