"""The reader of skops files."""
