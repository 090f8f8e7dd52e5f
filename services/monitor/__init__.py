"""The monitor: pages and a JSON API over a public log, and another process's pages for operators.

The public one opens the public log and nothing else; `operator.py` is served by a process of its
own, which runs the commands of an operator.
"""
