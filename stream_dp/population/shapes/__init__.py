"""Records of other shapes, mapped to plain reports by the mapping in `[run.input]`.

The values of a record go through the same judgement as those of a plain report
(`report_judging.py`), so every shape has the same cells, reasons and accounting.
"""
