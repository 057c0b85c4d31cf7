"""Meta-methods: scorers made of scorers."""
