"""What the system is: read-only looks that end in an inventory snapshot."""
