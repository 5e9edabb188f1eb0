"""hive-ingest: stream records into Apache Hive's transactional tables from Python, exactly once."""
