"""How many groups have each size, for every region of a tree."""
