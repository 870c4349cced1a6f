"""Dead letters: records that cannot become rows, stored byte for byte, forwarded, replayed."""
