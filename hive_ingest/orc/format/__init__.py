"""The bytes of ORC files (ORC specification, version 1): tails, stripe footers, streams, statistics; checksums."""
