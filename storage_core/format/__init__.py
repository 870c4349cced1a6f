"""Format: every byte on disk beside the values it holds. Pure; opens nothing."""
