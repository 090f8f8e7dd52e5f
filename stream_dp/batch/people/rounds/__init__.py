"""Tables of people whose pairs are picked in rounds, and the graphical model of them."""
