"""What each Python process of a test's Spark does first: it leaves PySpark's zip out of its path.

Spark puts the zip before all else. It has no compiled files, so each process would compile PySpark
anew, half a second long; the package beside it is the same, and has them.
"""

import sys

sys.path[:] = [place for place in sys.path if not place.endswith(("pyspark.zip", "-src.zip"))]
