"""What the system under test was: snapshot models."""
