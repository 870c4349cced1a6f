"""Files of exports, and what is refused of them."""
