"""Other machines by the OpenSSH client of this one, as the user's own ssh reaches them."""
