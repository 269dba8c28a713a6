"""A lean HTTP/1.1 client over kept-alive connections."""
