"""What a plugin may offer: the hooks, scorers and meta-methods, and how they are found."""
