"""ORC files: metadata and tails, statistics, stripe copying, column reading; files of inserts and of delete events."""
