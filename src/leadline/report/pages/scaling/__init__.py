"""Load curves as people and programs read them: page, terminal, JSON."""
