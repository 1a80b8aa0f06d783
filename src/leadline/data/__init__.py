"""Tables that are data: profiles."""
