"""One scheduling rule a file, named as in kube-scheduler."""
