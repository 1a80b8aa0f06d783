"""Raw tool output to typed results: pure and total, one file per tool."""
