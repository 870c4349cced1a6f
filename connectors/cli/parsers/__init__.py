"""The arguments, options and help of each verb; its code is loaded when it is called.

So the help of any verb waits for neither Arrow nor Kafka: what a module here imports is as light as
itself.
"""
