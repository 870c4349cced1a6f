"""Questions to streams whose older rows lie in columns."""
