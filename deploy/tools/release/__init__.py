"""What a release is made of: image, bill of materials, audit."""
