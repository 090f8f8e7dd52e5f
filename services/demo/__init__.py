"""The demo: a simulated study and a page to look at."""
