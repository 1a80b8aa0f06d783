"""One file per rule; the page of each is docs/rules/CODE.md."""
