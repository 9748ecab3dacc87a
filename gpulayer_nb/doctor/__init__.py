"""`gpulayer doctor`: what this machine can run, what is wrong with it, and the mend of each. Looks; changes nothing."""
