"""What runs on a rank to measure it: times in, plain numbers out."""
