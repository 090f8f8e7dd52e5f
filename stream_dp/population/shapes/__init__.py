"""Records of other shapes as plain reports, by the mapping that `[run.input]` declares.

A record becomes the bytes of plain reports, and these go through the same decoder as any other,
so that every shape has the same cells, reasons and accounting.
"""
