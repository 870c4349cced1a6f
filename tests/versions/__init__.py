"""Goal: one code base runs on each PySpark from 4.0 to 4.3. Method: its tests on each of them."""
