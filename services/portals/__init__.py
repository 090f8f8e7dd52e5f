"""What portals and search engines read about releases: descriptions and their formats."""
