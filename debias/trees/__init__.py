"""Trees as data, and the routing of rows through them."""
