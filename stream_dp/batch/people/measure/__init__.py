"""Step 2: interactions of columns as exact integers, their costs, and estimates from them."""
