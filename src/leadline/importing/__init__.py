"""Other people's results into archives: which files, read how, as which runs and cells."""
