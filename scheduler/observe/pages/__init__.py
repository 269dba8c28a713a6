"""What the pages say: health, debug, snapshot, flagz and statusz."""
