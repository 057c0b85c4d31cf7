"""The report: an audit as one self-contained HTML page, and its figures."""
