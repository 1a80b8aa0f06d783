"""Renderers: terminal, Markdown, HTML, SVG, JUnit."""
