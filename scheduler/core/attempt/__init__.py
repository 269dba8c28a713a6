"""One scheduling attempt: filter, score and select for one pod; then the post filters."""
