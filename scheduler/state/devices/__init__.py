"""What is known of devices: claims, classes, slices and pools, and what is taken of them."""
