"""The command line: one file a verb, each parses, makes one call and renders."""
