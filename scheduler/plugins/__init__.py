"""The plugins: one file or folder for each, named as in kube-scheduler."""
