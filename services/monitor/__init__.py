"""The monitor: pages and a JSON API over a public log, and pages for operators.

The public monitor opens the public log and nothing else. A separate process serves `operator.py`
and runs the commands of an operator.
"""
