"""The sink: a job's columns as rows, what tasks stage, and the commit that makes it one."""
