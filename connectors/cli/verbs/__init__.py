"""What each verb may be told, and its help; what it does is loaded once it is called.

So the help of any verb waits for neither Arrow nor Kafka: what a module here imports is as light as
itself.
"""
