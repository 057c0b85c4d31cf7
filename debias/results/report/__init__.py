"""What is shown to others: one self-contained HTML page, and the figures in it."""
