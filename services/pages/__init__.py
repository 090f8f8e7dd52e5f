"""The pages that people look at: views of a public log, charts, and the templates that show them.

The monitor, `stream-dp page` and the demo share it. It reads published data only; an operator's
process passes in whatever else its pages show.
"""
