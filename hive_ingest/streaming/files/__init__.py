"""Files of records: ingested once, or followed while they are written."""
