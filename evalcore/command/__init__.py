"""The commands of `evalcore`; each module is imported only when its command is given."""
