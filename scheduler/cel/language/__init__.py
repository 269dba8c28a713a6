"""From text to a typed syntax tree: tokens, parser, macros, types, checker."""
