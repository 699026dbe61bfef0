"""Parts of pages, and tables and progress bars of the terminal.

Nothing is printed on import, and plotly is loaded only when a page is written.
"""
