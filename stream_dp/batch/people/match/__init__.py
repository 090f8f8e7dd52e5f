"""Two-phase synthesis of people: single columns, a compressed domain, then its marginals."""
