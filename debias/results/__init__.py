"""Results: scores, audits, comparisons and gates, with their tables, plots, pages and files."""
