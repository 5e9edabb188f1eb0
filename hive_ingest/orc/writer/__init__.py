"""Rows to files in Hive's ACID schema: inserts, delete events, and files put together from whole stripes."""
