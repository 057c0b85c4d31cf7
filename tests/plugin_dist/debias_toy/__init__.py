"""A scorer, an adapter and a meta-method that are not debias's own."""
