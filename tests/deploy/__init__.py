"""What operators deploy: alert rules, dashboard, compose file, unit and StatefulSet."""
