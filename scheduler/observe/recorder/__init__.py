"""The flight recorder: what happened lately, in bounded files that can be decided again."""
