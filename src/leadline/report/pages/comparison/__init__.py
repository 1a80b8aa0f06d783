"""The comparison of two systems as a page, a terminal answer and a section of a run's page."""
