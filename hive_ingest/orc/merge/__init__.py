"""Files of rows or delete events merged into one, for compactions."""
