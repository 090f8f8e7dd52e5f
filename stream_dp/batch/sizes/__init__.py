"""The number of groups of each size, for every region of a tree."""
