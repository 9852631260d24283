"""Software bills of materials of the wheels and of the image, as CycloneDX and as SPDX."""
