"""One file for each notebook of the course: what its exercises should give, and what a wrong answer means."""
