"""Trees as data, and how rows are routed through them."""
