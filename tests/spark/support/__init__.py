"""What tests through Spark share: sessions, labs, programs that run as drivers and executors."""
