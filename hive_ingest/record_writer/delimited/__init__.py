"""Records as delimited lines."""
