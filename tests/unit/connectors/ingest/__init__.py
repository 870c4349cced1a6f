"""The worker and its parts; where a broker is asked, none answers."""
