"""Files in Hive's ACID schema to rows, stripe by stripe."""
