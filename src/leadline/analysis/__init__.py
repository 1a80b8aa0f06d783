"""What the trials of a run say together: pure functions of an archive and its findings."""
