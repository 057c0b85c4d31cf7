"""The adapter of the OOB forest of debias itself."""
