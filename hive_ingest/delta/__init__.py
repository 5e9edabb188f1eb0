"""Rows to delta files: routing, buffers, spills, the delta writer."""
