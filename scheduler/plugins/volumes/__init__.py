"""VolumeBinding, VolumeRestrictions, VolumeZone and NodeVolumeLimits."""
