"""The releaser: reads reports, closes periods, decides releases once, publishes them."""
