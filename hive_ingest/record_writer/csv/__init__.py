"""Records as CSV."""
