"""Single values and whole arrays by the rules of the option `coerce`: strict, lossless, Hive's."""
