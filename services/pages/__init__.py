"""The pages that people look at: views of a public log, charts, and the templates that show them.

The monitor, `stream-dp page` and the demo share it. It draws from what is published; whatever else
a page shows is handed to it by its process.
"""
