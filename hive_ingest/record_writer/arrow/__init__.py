"""Records that are Arrow data or rows of Python objects."""
