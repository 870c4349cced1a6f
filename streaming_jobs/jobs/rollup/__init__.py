"""What `roll_up` is made of: calendar, aggregation, the cascade of levels, where roll-ups lie."""
