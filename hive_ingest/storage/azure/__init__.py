"""Azure Storage, through azure-storage-blob."""
