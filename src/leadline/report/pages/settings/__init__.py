"""The page of a settings study."""
