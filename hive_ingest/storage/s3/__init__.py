"""S3 and services with its interface, through boto3."""
