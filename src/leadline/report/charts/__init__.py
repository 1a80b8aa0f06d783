"""Charts as SVG: one drawing for each kind, framed by HTML in a page and by SVG in a file.

Widths are in per cent of a plot and heights in pixels, so that text and marks keep their size
whatever the width of the page.
"""
