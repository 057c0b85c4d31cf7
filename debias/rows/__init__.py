"""Evaluation rows: their node sums, and what is proven about them."""
