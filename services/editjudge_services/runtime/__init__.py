"""What specialists share with each other, and the servers of the local stack."""
