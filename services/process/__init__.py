"""Processes of the service: addresses, events, heartbeats, and attached child processes."""
