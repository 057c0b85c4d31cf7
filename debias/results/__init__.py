"""What users get: scores, audits, comparisons and gates, and how they are shown."""
