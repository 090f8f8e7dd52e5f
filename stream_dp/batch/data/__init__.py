"""Tables of people in groups: their domain, their files, their form as arrays."""
