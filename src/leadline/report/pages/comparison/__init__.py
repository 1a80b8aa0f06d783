"""Two sides beside each other: the page, what a terminal shows of it, the answer for programs."""
