"""Records of other shapes as plain reports, by the mapping that `[run.input]` declares.

The values of a record go through the same judgement as those of a plain report
(`report_judging.py`), so every shape has the same cells, reasons and accounting.
"""
