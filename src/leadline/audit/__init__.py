"""Can this measurement be believed? One file per rule, each a pure function of what is stored."""
