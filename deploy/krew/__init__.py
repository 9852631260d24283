"""The plug-in as krew installs it: an archive with a small program, and the manifest that names the archive by its hash."""
