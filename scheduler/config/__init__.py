"""The configuration file: `KubeSchedulerConfiguration` v1 becomes frozen settings."""
