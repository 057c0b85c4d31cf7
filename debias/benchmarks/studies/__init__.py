"""The studies that `debias bench` knows, a file a paper."""
