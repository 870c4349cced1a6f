"""The arguments, options and help of each command; its code is loaded when it is called.

So the help of any command waits for neither Arrow nor Kafka: what a module here imports is as light
as itself.
"""
