"""Forecasts as people read them: words, pictures, page."""
