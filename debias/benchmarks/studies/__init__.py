"""The studies that `debias bench` can run, one file for each paper."""
