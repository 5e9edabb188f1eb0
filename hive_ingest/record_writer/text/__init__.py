"""Text that is divided into blocks of records, whatever their format."""
