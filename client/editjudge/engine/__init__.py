"""Planning, judging and keeping edit by edit: what makes a run go on until it is done."""
