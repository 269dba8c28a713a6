"""Builds the parts of a release: packages, charts, image, bill of materials; audits the locks."""
