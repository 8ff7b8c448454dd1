"""The job server: REST in Flink's form over the jobs of this process."""
