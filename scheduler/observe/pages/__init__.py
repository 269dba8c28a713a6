"""The content of the pages: health, debug, snapshot, flagz and statusz."""
