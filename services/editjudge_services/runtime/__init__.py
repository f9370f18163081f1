"""What every specialist shares: the Triton adaptor, the model repository, the launcher."""
