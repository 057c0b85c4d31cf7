"""Reader of skops files."""
