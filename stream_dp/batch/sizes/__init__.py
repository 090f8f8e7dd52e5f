"""The number of groups of every size, for every region of a tree."""
