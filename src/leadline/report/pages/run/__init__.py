"""The page of one run, part by part."""
