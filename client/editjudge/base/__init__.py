"""What every other package rests on, the services among them: images, errors, contracts."""
