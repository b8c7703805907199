"""What an application asks of a queue that runs, one noun a file."""
