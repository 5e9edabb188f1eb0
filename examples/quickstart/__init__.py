"""The quickstart: a year of flights, streamed exactly once through a kill -9. `scripts/quickstart` runs it."""
